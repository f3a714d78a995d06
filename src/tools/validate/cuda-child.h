/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process that calls CUDA. `gpuslice validate` starts its own program again with the words
 * validate and CUDA_CHILD_WORD, and with a packet socket as descriptor 3 (tools/validate/cuda/note.h).
 * The process may hang or crash at any time.
 */
#define CUDA_CHILD_WORD "cuda-child"

/* Opens @library (NULL or "": by its SONAME), adds vectors on each device, sends the results.
 * Returns the exit status. Thread: main. */
int cuda_child(const char *library);
