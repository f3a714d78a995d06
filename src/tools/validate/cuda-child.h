/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process that calls CUDA. `gpuslice validate` starts itself anew with these two words, with a
 * packet socket as descriptor 3 (tools/validate/cuda/note.h). It may hang or crash at any time.
 */
#define CUDA_CHILD_WORD "cuda-child"

/* Opens @library (NULL or "": by its name), adds vectors on each device, tells the results. The
 * return value is the exit status. Thread: main. */
int cuda_child(const char *library);
