/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A guest without an operating system: 64 KiB of firmware that count.
 *
 * The first word of each page from 1 MiB to 65 MiB holds its own address plus the number of the
 * round. Each round checks and increments them all, and prints a dot on the serial port; a word
 * that is wrong ends it with a '!'.
 */
	.equ FIRST, 0x100000
	.equ LAST, 0x4100000
	.equ PAGE, 4096
	.equ SERIAL, 0x3f8
	.equ SERIAL_STATUS, SERIAL + 5
	.equ FAST_A20, 0x92
	.equ BASE, 0xffff0000 /* where the last 64 KiB of the firmware are */
	.equ STACK, 0x8000
	.equ REST, 2000 /* reads of an unused port between rounds */

	.code16
	.globl _start
_start:
start:
	cli
	inb $FAST_A20, %al
	orb $2, %al
	outb %al, $FAST_A20
	lgdtl %cs:(gdt_pointer - start)
	movl %cr0, %eax
	orl $1, %eax
	movl %eax, %cr0
	ljmpl $8, $(BASE + (flat - start))

	.code32
flat:
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	movl $STACK, %esp
	xorl %ebx, %ebx /* the round */
	movl $FIRST, %edi
fill:
	movl %edi, (%edi)
	addl $PAGE, %edi
	cmpl $LAST, %edi
	jne fill
round:
	movl $FIRST, %edi
page:
	leal (%edi,%ebx), %eax
	cmpl %eax, (%edi)
	jne wrong
	incl (%edi)
	addl $PAGE, %edi
	cmpl $LAST, %edi
	jne page
	incl %ebx
	movb $'.', %cl
	call print
	movl $REST, %ecx
rest:
	inb $0x80, %al
	loop rest
	jmp round
wrong:
	movb $'!', %cl
	call print
	hlt
print:
	movw $SERIAL_STATUS, %dx
	inb %dx, %al
	testb $0x20, %al
	jz print
	movb %cl, %al
	movw $SERIAL, %dx
	outb %al, %dx
	ret

	.balign 8
gdt:
	.quad 0
	.quad 0x00cf9a000000ffff /* code, all of memory */
	.quad 0x00cf92000000ffff /* data */
gdt_pointer:
	.word gdt_pointer - gdt - 1
	.long BASE + (gdt - start)

	.org 0xfff0 /* where the processor begins */
	.code16
	jmp start
	.org 0x10000
