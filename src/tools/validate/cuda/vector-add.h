/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The work for a GPU: c = a + b over VECTOR_LEN floats, as PTX text that the driver compiles for the
 * GPU. PTX version and target are the oldest that drivers from R470 on accept, so one text serves
 * every GPU.
 *
 * Each sum of the chosen a and b is exact. c begins with a value that no sum has, so unwritten memory
 * does not pass. Source: https://docs.nvidia.com/cuda/parallel-thread-execution/
 */
#define VECTOR_LEN    50000
#define VECTOR_BLOCK  256
#define VECTOR_KERNEL "gpuslice_vector_add"
#define VECTOR_UNSET  (-1.0F)

static inline float vector_a(unsigned i)
{
	return (float)i * 0.5F;
}

static inline float vector_b(unsigned i)
{
	return (float)i * 0.25F + 1.0F;
}

/* One thread for each element; threads beyond the end do nothing. */
static const char vector_ptx[] = ".version 6.0\n"
				 ".target sm_50\n"
				 ".address_size 64\n"
				 ".visible .entry " VECTOR_KERNEL "(\n"
				 "	.param .u64 param_a,\n"
				 "	.param .u64 param_b,\n"
				 "	.param .u64 param_c,\n"
				 "	.param .u32 param_n)\n"
				 "{\n"
				 "	.reg .pred %past;\n"
				 "	.reg .b32 %block, %threads, %thread, %i, %n;\n"
				 "	.reg .f32 %x, %y, %z;\n"
				 "	.reg .b64 %a, %b, %c, %offset;\n"
				 "	mov.u32 %block, %ctaid.x;\n"
				 "	mov.u32 %threads, %ntid.x;\n"
				 "	mov.u32 %thread, %tid.x;\n"
				 "	mad.lo.s32 %i, %block, %threads, %thread;\n"
				 "	ld.param.u32 %n, [param_n];\n"
				 "	setp.ge.u32 %past, %i, %n;\n"
				 "	@%past bra DONE;\n"
				 "	mul.wide.u32 %offset, %i, 4;\n"
				 "	ld.param.u64 %a, [param_a];\n"
				 "	cvta.to.global.u64 %a, %a;\n"
				 "	add.s64 %a, %a, %offset;\n"
				 "	ld.global.f32 %x, [%a];\n"
				 "	ld.param.u64 %b, [param_b];\n"
				 "	cvta.to.global.u64 %b, %b;\n"
				 "	add.s64 %b, %b, %offset;\n"
				 "	ld.global.f32 %y, [%b];\n"
				 "	add.rn.f32 %z, %x, %y;\n"
				 "	ld.param.u64 %c, [param_c];\n"
				 "	cvta.to.global.u64 %c, %c;\n"
				 "	add.s64 %c, %c, %offset;\n"
				 "	st.global.f32 [%c], %z;\n"
				 "DONE:\n"
				 "	ret;\n"
				 "}\n";
