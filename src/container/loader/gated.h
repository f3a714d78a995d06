/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The entry point of a function with the gate in front of it, in assembly as in entry.h. In no slice it jumps
 * through the word of the name and leaves all arguments in place: a load and a branch more than an entry point
 * without a gate. In a slice, or before slice and driver are known, it jumps to gated_NAME. In C, all of this
 * would need the frame of a call with eleven arguments.
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
