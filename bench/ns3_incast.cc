/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The incast of bench/fabric in ns-3: eight hosts send UDP datagrams through one router to another
 * host. ns-3 has no PFC to slow the hosts down, so together they send what the last link carries,
 * and nothing is lost. bench/ns3 compiles it. It measures CPU time, so other programs disturb
 * little.
 */
#include <cstdio>
#include <ctime>

#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>

static double cpu_s()
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main()
{
	const unsigned senders = 8, port = 4791, payload_bytes = 1000;
	const double run_s = 0.01;
	ns3::NodeContainer hosts(senders + 1), router(1);
	ns3::PointToPointHelper link;
	ns3::InternetStackHelper stack;
	ns3::Ipv4AddressHelper address("10.0.0.0", "255.255.255.0");
	ns3::Ipv4Address target;

	ns3::Time::SetResolution(ns3::Time::PS);
	link.SetDeviceAttribute("DataRate", ns3::StringValue("100Gbps"));
	link.SetChannelAttribute("Delay", ns3::StringValue("1us"));
	link.SetQueue("ns3::DropTailQueue", "MaxSize", ns3::StringValue("1000p"));
	stack.Install(hosts);
	stack.Install(router);
	for (unsigned i = 0; i <= senders; i++) {
		ns3::Ipv4InterfaceContainer ends =
			address.Assign(link.Install(hosts.Get(i), router.Get(0)));

		if (i == 0)
			target = ends.GetAddress(0);
		address.NewNetwork();
	}
	ns3::Ipv4GlobalRoutingHelper::PopulateRoutingTables();

	ns3::OnOffHelper source(
		"ns3::UdpSocketFactory", ns3::InetSocketAddress(target, (uint16_t)port));
	ns3::PacketSinkHelper sink("ns3::UdpSocketFactory",
		ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), (uint16_t)port));

	source.SetConstantRate(ns3::DataRate("12Gbps"), payload_bytes);
	for (unsigned i = 1; i <= senders; i++)
		source.Install(hosts.Get(i));
	ns3::ApplicationContainer sinks = sink.Install(hosts.Get(0));
	ns3::Simulator::Stop(ns3::Seconds(run_s));

	double start_s = cpu_s();

	ns3::Simulator::Run();

	double used_s = cpu_s() - start_s;
	double frames = (double)sinks.Get(0)->GetObject<ns3::PacketSink>()->GetTotalRx() /
		payload_bytes;

	printf("ns-3: %.2f million events/s, %.1f events for each of %.0f frames\n",
		(double)ns3::Simulator::GetEventCount() / used_s / 1e6,
		(double)ns3::Simulator::GetEventCount() / frames, frames);
	ns3::Simulator::Destroy();
}
