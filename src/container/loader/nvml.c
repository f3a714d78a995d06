/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of NVML's functions while the library is absent, and of functions that the library lacks. */
#include "container/loader/internal.h"

#define NVML_LIBRARY_NOT_FOUND  12
#define NVML_FUNCTION_NOT_FOUND 13

const char forward_prefix[] = "nvml";

static unsigned int no_library(void)
{
	return NVML_LIBRARY_NOT_FOUND;
}

static unsigned int answer_nvml_no_function(void)
{
	return NVML_FUNCTION_NOT_FOUND;
}

static const char *answer_nvml_error_string(unsigned int error)
{
	return error == NVML_LIBRARY_NOT_FOUND ? "NVML Shared Library Not Found"
					       : "Unknown Error";
}

void *forward_answer(const char *name, bool absent)
{
	if (strcmp(name, "nvmlErrorString") == 0)
		return (void *)answer_nvml_error_string;
	return absent ? (void *)no_library : (void *)answer_nvml_no_function;
}
