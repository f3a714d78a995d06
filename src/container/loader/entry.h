/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The entry points in assembly. The entry point of a name jumps through the word of the name. While that is 0, the
 * entry point saves all registers that can hold arguments, calls forward_resolve(), and jumps to the result. Each
 * entry point has an ordinary start and 32 bytes, as some programs patch the first bytes of driver functions.
 *
 * dlopen and dlmopen are tail jumps: the loader derives the caller, and with it the search path and the namespace,
 * from the return address.
 *
 * The note marks a file of gpuslice, under any name, so that find.c does not take it for the driver's.
 */
#if defined(__x86_64__)
#	define FORWARD_BEGIN_ARCH                            \
		".macro forward name, slot\n"                 \
		"\t.p2align 5\n"                              \
		"\t.globl \\name\n"                           \
		"\t.type \\name, @function\n"                 \
		"\\name:\n"                                   \
		"\t.cfi_startproc\n"                          \
		"\tendbr64\n"                                 \
		"\tmovq forward_slots+8*\\slot(%rip), %r11\n" \
		"\ttestq %r11, %r11\n"                        \
		"\tje 1f\n"                                   \
		"\tjmp *%r11\n"                               \
		"1:\tmovl $\\slot, %r11d\n"                   \
		"\tjmp forward_first\n"                       \
		"\t.cfi_endproc\n"                            \
		"\t.size \\name, .-\\name\n"                  \
		".endm\n"                                     \
		".macro forward_dl name, fn\n"                \
		"\t.p2align 5\n"                              \
		"\t.globl \\name\n"                           \
		"\t.type \\name, @function\n"                 \
		"\\name:\n"                                   \
		"\t.cfi_startproc\n"                          \
		"\tendbr64\n"                                 \
		"\tsubq $40, %rsp\n"                          \
		"\t.cfi_adjust_cfa_offset 40\n"               \
		"\tmovq %rdi, (%rsp)\n"                       \
		"\tmovq %rsi, 8(%rsp)\n"                      \
		"\tmovq %rdx, 16(%rsp)\n"                     \
		"\tmovq %rsp, %rdi\n"                         \
		"\tcall \\fn\n"                               \
		"\tmovq %rax, %r11\n"                         \
		"\tmovq (%rsp), %rdi\n"                       \
		"\tmovq 8(%rsp), %rsi\n"                      \
		"\tmovq 16(%rsp), %rdx\n"                     \
		"\taddq $40, %rsp\n"                          \
		"\t.cfi_adjust_cfa_offset -40\n"              \
		"\tjmp *%r11\n"                               \
		"\t.cfi_endproc\n"                            \
		"\t.size \\name, .-\\name\n"                  \
		".endm\n"                                     \
		".text\n"                                     \
		"\t.p2align 5\n"                              \
		"\t.type forward_first, @function\n"          \
		"forward_first:\n"                            \
		"\t.cfi_startproc\n"                          \
		"\tpushq %rbp\n"                              \
		"\t.cfi_adjust_cfa_offset 8\n"                \
		"\t.cfi_rel_offset %rbp, 0\n"                 \
		"\tmovq %rsp, %rbp\n"                         \
		"\t.cfi_def_cfa_register %rbp\n"              \
		"\tsubq $192, %rsp\n"                         \
		"\tmovq %rdi, (%rsp)\n"                       \
		"\tmovq %rsi, 8(%rsp)\n"                      \
		"\tmovq %rdx, 16(%rsp)\n"                     \
		"\tmovq %rcx, 24(%rsp)\n"                     \
		"\tmovq %r8, 32(%rsp)\n"                      \
		"\tmovq %r9, 40(%rsp)\n"                      \
		"\tmovq %r10, 48(%rsp)\n"                     \
		"\tmovq %rax, 56(%rsp)\n"                     \
		"\tmovups %xmm0, 64(%rsp)\n"                  \
		"\tmovups %xmm1, 80(%rsp)\n"                  \
		"\tmovups %xmm2, 96(%rsp)\n"                  \
		"\tmovups %xmm3, 112(%rsp)\n"                 \
		"\tmovups %xmm4, 128(%rsp)\n"                 \
		"\tmovups %xmm5, 144(%rsp)\n"                 \
		"\tmovups %xmm6, 160(%rsp)\n"                 \
		"\tmovups %xmm7, 176(%rsp)\n"                 \
		"\tmovl %r11d, %edi\n"                        \
		"\tcall forward_resolve\n"                    \
		"\tmovq %rax, %r11\n"                         \
		"\tmovq (%rsp), %rdi\n"                       \
		"\tmovq 8(%rsp), %rsi\n"                      \
		"\tmovq 16(%rsp), %rdx\n"                     \
		"\tmovq 24(%rsp), %rcx\n"                     \
		"\tmovq 32(%rsp), %r8\n"                      \
		"\tmovq 40(%rsp), %r9\n"                      \
		"\tmovq 48(%rsp), %r10\n"                     \
		"\tmovq 56(%rsp), %rax\n"                     \
		"\tmovups 64(%rsp), %xmm0\n"                  \
		"\tmovups 80(%rsp), %xmm1\n"                  \
		"\tmovups 96(%rsp), %xmm2\n"                  \
		"\tmovups 112(%rsp), %xmm3\n"                 \
		"\tmovups 128(%rsp), %xmm4\n"                 \
		"\tmovups 144(%rsp), %xmm5\n"                 \
		"\tmovups 160(%rsp), %xmm6\n"                 \
		"\tmovups 176(%rsp), %xmm7\n"                 \
		"\tleave\n"                                   \
		"\t.cfi_def_cfa %rsp, 8\n"                    \
		"\tjmp *%r11\n"                               \
		"\t.cfi_endproc\n"                            \
		"\t.size forward_first, .-forward_first\n"
#elif defined(__aarch64__)
#	define FORWARD_BEGIN_ARCH                               \
		".macro forward name, slot\n"                    \
		"\t.p2align 5\n"                                 \
		"\t.globl \\name\n"                              \
		"\t.type \\name, %function\n"                    \
		"\\name:\n"                                      \
		"\t.cfi_startproc\n"                             \
		"\thint #34\n"                                   \
		"\tadrp x16, forward_slots+8*\\slot\n"           \
		"\tadd x16, x16, :lo12:forward_slots+8*\\slot\n" \
		"\tldar x16, [x16]\n"                            \
		"\tcbz x16, 1f\n"                                \
		"\tbr x16\n"                                     \
		"1:\tmov w17, #\\slot\n"                         \
		"\tb forward_first\n"                            \
		"\t.cfi_endproc\n"                               \
		"\t.size \\name, .-\\name\n"                     \
		".endm\n"                                        \
		".macro forward_dl name, fn\n"                   \
		"\t.p2align 5\n"                                 \
		"\t.globl \\name\n"                              \
		"\t.type \\name, %function\n"                    \
		"\\name:\n"                                      \
		"\t.cfi_startproc\n"                             \
		"\thint #34\n"                                   \
		"\tstp x29, x30, [sp, #-48]!\n"                  \
		"\t.cfi_def_cfa_offset 48\n"                     \
		"\t.cfi_offset x29, -48\n"                       \
		"\t.cfi_offset x30, -40\n"                       \
		"\tmov x29, sp\n"                                \
		"\tstp x0, x1, [sp, #16]\n"                      \
		"\tstr x2, [sp, #32]\n"                          \
		"\tadd x0, sp, #16\n"                            \
		"\tbl \\fn\n"                                    \
		"\tmov x16, x0\n"                                \
		"\tldp x0, x1, [sp, #16]\n"                      \
		"\tldr x2, [sp, #32]\n"                          \
		"\tldp x29, x30, [sp], #48\n"                    \
		"\t.cfi_restore x30\n"                           \
		"\t.cfi_restore x29\n"                           \
		"\t.cfi_def_cfa_offset 0\n"                      \
		"\tbr x16\n"                                     \
		"\t.cfi_endproc\n"                               \
		"\t.size \\name, .-\\name\n"                     \
		".endm\n"                                        \
		".text\n"                                        \
		"\t.p2align 5\n"                                 \
		"\t.type forward_first, %function\n"             \
		"forward_first:\n"                               \
		"\t.cfi_startproc\n"                             \
		"\tstp x29, x30, [sp, #-224]!\n"                 \
		"\t.cfi_def_cfa_offset 224\n"                    \
		"\t.cfi_offset x29, -224\n"                      \
		"\t.cfi_offset x30, -216\n"                      \
		"\tmov x29, sp\n"                                \
		"\tstp x0, x1, [sp, #16]\n"                      \
		"\tstp x2, x3, [sp, #32]\n"                      \
		"\tstp x4, x5, [sp, #48]\n"                      \
		"\tstp x6, x7, [sp, #64]\n"                      \
		"\tstr x8, [sp, #80]\n"                          \
		"\tstp q0, q1, [sp, #96]\n"                      \
		"\tstp q2, q3, [sp, #128]\n"                     \
		"\tstp q4, q5, [sp, #160]\n"                     \
		"\tstp q6, q7, [sp, #192]\n"                     \
		"\tmov w0, w17\n"                                \
		"\tbl forward_resolve\n"                         \
		"\tmov x16, x0\n"                                \
		"\tldp x0, x1, [sp, #16]\n"                      \
		"\tldp x2, x3, [sp, #32]\n"                      \
		"\tldp x4, x5, [sp, #48]\n"                      \
		"\tldp x6, x7, [sp, #64]\n"                      \
		"\tldr x8, [sp, #80]\n"                          \
		"\tldp q0, q1, [sp, #96]\n"                      \
		"\tldp q2, q3, [sp, #128]\n"                     \
		"\tldp q4, q5, [sp, #160]\n"                     \
		"\tldp q6, q7, [sp, #192]\n"                     \
		"\tldp x29, x30, [sp], #224\n"                   \
		"\t.cfi_restore x30\n"                           \
		"\t.cfi_restore x29\n"                           \
		"\t.cfi_def_cfa_offset 0\n"                      \
		"\tbr x16\n"                                     \
		"\t.cfi_endproc\n"                               \
		"\t.size forward_first, .-forward_first\n"
#else
#	error "entry points are written for x86-64 and AArch64"
#endif

#define FORWARD_BEGIN                             \
	FORWARD_BEGIN_ARCH                        \
	".macro forward_spare name\n"             \
	"\t.globl \\name\n"                       \
	"\t.set \\name, forward_spares\n"         \
	".endm\n"                                 \
	".macro forward_hook name, slot\n"        \
	"\t.long \\slot\n"                        \
	"\t.long \\name - .\n"                    \
	".endm\n"                                 \
	".section .note.gpuslice, \"a\", %note\n" \
	"\t.p2align 2\n"                          \
	"\t.long 9, 4, 1\n"                       \
	"\t.asciz \"gpuslice\"\n"                 \
	"\t.p2align 2\n"                          \
	"\t.long 1\n"                             \
	".text\n"                                 \
	"\t.hidden forward_slots\n"               \
	"\t.hidden forward_resolve\n"             \
	"\t.hidden forward_dlopen\n"              \
	"\t.hidden forward_dlmopen\n"             \
	"forward_dl dlopen, forward_dlopen\n"     \
	"forward_dl dlmopen, forward_dlmopen\n"   \
	"forward_spares:\n"

#define FORWARD_HOOKS                    \
	".section .rodata\n"             \
	"\t.p2align 3\n"                 \
	"\t.globl forward_hook_table\n"  \
	"\t.hidden forward_hook_table\n" \
	"forward_hook_table:\n"

#define FORWARD_END ".text\n"

/* --- with the gate in front --- */

/*
 * The entry point of a function with the gate in front of it. In no slice it jumps through the word of the name and
 * leaves all arguments in place: a load and a branch more than an entry point without a gate. In a slice, or before
 * slice and driver are known, it jumps to gated_NAME. In C, all of this would need the frame of a call with eleven
 * arguments.
 */
#if defined(__x86_64__)
#	define FORWARD_GATED_BODY                            \
		"\tendbr64\n"                                 \
		"\tcmpb $0, link_off(%rip)\n"                 \
		"\tje 1f\n"                                   \
		"\tmovq forward_slots+8*\\slot(%rip), %r11\n" \
		"\ttestq %r11, %r11\n"                        \
		"\tje 1f\n"                                   \
		"\tjmp *%r11\n"                               \
		"1:\tjmp gated_\\name\n"
#elif defined(__aarch64__)
#	define FORWARD_GATED_BODY                               \
		"\thint #34\n"                                   \
		"\tadrp x16, link_off\n"                         \
		"\tldrb w16, [x16, :lo12:link_off]\n"            \
		"\tcbz w16, 1f\n"                                \
		"\tadrp x16, forward_slots+8*\\slot\n"           \
		"\tadd x16, x16, :lo12:forward_slots+8*\\slot\n" \
		"\tldar x16, [x16]\n"                            \
		"\tcbz x16, 1f\n"                                \
		"\tbr x16\n"                                     \
		"1:\tb gated_\\name\n"
#else
#	error "entry points are written for x86-64 and AArch64"
#endif

#define FORWARD_GATED_BEGIN                                        \
	".macro forward_gated name, slot\n"                        \
	"\t.hidden gated_\\name\n"                                 \
	"\t.p2align 5\n"                                           \
	"\t.globl \\name\n"                                        \
	"\t.type \\name, %function\n"                              \
	"\\name:\n"                                                \
	"\t.cfi_startproc\n" FORWARD_GATED_BODY "\t.cfi_endproc\n" \
	"\t.size \\name, .-\\name\n"                               \
	".endm\n"                                                  \
	".text\n"                                                  \
	"\t.hidden forward_slots\n"                                \
	"\t.hidden link_off\n"

#define FORWARD_GATED_END ".text\n"
