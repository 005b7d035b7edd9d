-- SPDX-License-Identifier: BSD-2-Clause
--
-- A postdissector for RoCEv2, for what Wireshark 4.0 lacks: congestion notifications (CNP), the FECN
-- and BECN bits, and whether the ICRC is right.
--
--     tshark -X lua_script:urnic-roce.lua -Y roce2.becn -r FILE
--
-- Fields: roce2.fecn, roce2.becn, roce2.cnp, roce2.icrc, roce2.icrc.status (good, bad or unchecked).
-- Checking the ICRC of each packet takes time; a preference of the protocol turns it off.

local UDP_PORT = 4791
local UDP_BYTES, BTH_BYTES, ICRC_BYTES = 8, 12, 4
local OPCODE_CNP = 0x81

local bits = bit32 or bit
local roce = Proto("roce2", "RoCEv2: congestion and ICRC")
local fields = {
	fecn = ProtoField.bool("roce2.fecn", "FECN"),
	becn = ProtoField.bool("roce2.becn", "BECN"),
	cnp = ProtoField.bool("roce2.cnp", "Congestion notification packet"),
	icrc = ProtoField.uint32("roce2.icrc", "ICRC", base.HEX),
	status = ProtoField.string("roce2.icrc.status", "ICRC status"),
}
local wrong = ProtoExpert.new("roce2.icrc.wrong", "The ICRC is wrong: the receiver drops the packet",
	expert.group.CHECKSUM, expert.severity.ERROR)

roce.fields = fields
roce.experts = { wrong }
roce.prefs.check = Pref.bool("Check the ICRC", true, "Compute the ICRC of each packet")

local udp_of = Field.new("udp")
local port_of = Field.new("udp.dstport")
local ipv4_of = Field.new("ip")
local ipv6_of = Field.new("ipv6")

-- --- the CRC: that of zlib, over masked headers (IBTA annex A17) ---

local crc_table = {}
for i = 0, 255 do
	local value = i
	for _ = 1, 8 do
		local is_odd = bits.band(value, 1) == 1
		value = bits.rshift(value, 1)
		if is_odd then
			value = bits.bxor(value, 0xedb88320)
		end
	end
	crc_table[i] = value
end

-- masked: bytes that count as ones, by their offset.
local function crc_add(crc, bytes, masked)
	for i = 0, bytes:len() - 1 do
		local byte = masked[i] and 0xff or bytes:get_index(i)
		crc = bits.bxor(crc_table[bits.band(bits.bxor(crc, byte), 0xff)], bits.rshift(crc, 8))
	end
	return crc
end

local IPV4_MASKED = { [1] = true, [8] = true, [10] = true, [11] = true }
local UDP_MASKED = { [6] = true, [7] = true }
local BTH_MASKED = { [4] = true }
local ONES = ByteArray.new("ffffffffffffffff")

local function ipv6_masked(header)
	header:set_index(0, bits.bor(header:get_index(0), 0x0f))
	return header, { [1] = true, [2] = true, [3] = true, [7] = true }
end

local function icrc_of(buffer, ip, is_ipv6, udp, packet_bytes)
	local header = buffer(ip, is_ipv6 and 40 or 20):bytes()
	local masked = IPV4_MASKED

	if is_ipv6 then
		header, masked = ipv6_masked(header)
	end
	local crc = crc_add(0xffffffff, ONES, {})
	crc = crc_add(crc, header, masked)
	crc = crc_add(crc, buffer(udp, UDP_BYTES):bytes(), UDP_MASKED)
	crc = crc_add(crc, buffer(udp + UDP_BYTES, packet_bytes):bytes(), BTH_MASKED)
	-- bit and bit32 differ in the sign of their results.
	return bits.bnot(crc) % 0x100000000
end

-- --- packets ---

local function icrc_show(tree, buffer, udp, bytes)
	local ipv4, ipv6 = { ipv4_of() }, { ipv6_of() }
	local ip = ipv6[#ipv6] or ipv4[#ipv4]
	local at = udp + UDP_BYTES + bytes - ICRC_BYTES
	local status = "unchecked"

	if at + ICRC_BYTES > buffer:len() then
		tree:add(fields.status, status):set_generated()
		return
	end
	local found = buffer(at, ICRC_BYTES):le_uint()
	tree:add_le(fields.icrc, buffer(at, ICRC_BYTES))
	-- Without options and extension headers, as RoCEv2 packets are.
	local is_ipv6 = ip ~= nil and ip == ipv6[#ipv6]
	if roce.prefs.check and ip and ip.offset + (is_ipv6 and 40 or 20) == udp then
		status = icrc_of(buffer, ip.offset, is_ipv6, udp, bytes - ICRC_BYTES) == found and "good" or "bad"
	end
	local item = tree:add(fields.status, buffer(at, ICRC_BYTES), status)
	item:set_generated()
	if status == "bad" then
		item:add_proto_expert_info(wrong)
	end
end

function roce.dissector(buffer, pinfo, tree)
	local udps, ports = { udp_of() }, { port_of() }
	local last = udps[#udps]

	if not last or ports[#ports].value ~= UDP_PORT then
		return
	end
	local udp = last.offset
	-- A fragment or a frame of another data source has no headers here.
	if udp + UDP_BYTES + BTH_BYTES > buffer:len() then
		return
	end
	local bytes = buffer(udp + 4, 2):uint() - UDP_BYTES
	if bytes < BTH_BYTES + ICRC_BYTES then
		return
	end
	local opcode = buffer(udp + UDP_BYTES, 1):uint()
	local congestion = buffer(udp + UDP_BYTES + 4, 1)
	local part = tree:add(roce, buffer(udp + UDP_BYTES))

	part:add(fields.fecn, congestion, bits.band(congestion:uint(), 0x80) ~= 0)
	part:add(fields.becn, congestion, bits.band(congestion:uint(), 0x40) ~= 0)
	part:add(fields.cnp, buffer(udp + UDP_BYTES, 1), opcode == OPCODE_CNP)
	if opcode == OPCODE_CNP then
		pinfo.cols.info:append(" [congestion notification]")
	end
	icrc_show(part, buffer, udp, bytes)
end

register_postdissector(roce)
