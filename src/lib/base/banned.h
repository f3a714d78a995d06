/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls that do not compile here. Included by force into every source file of ours (meson.build),
 * after the system headers that declare them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Macros where the compiler fortifies them. */
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strcat strncpy sprintf vsprintf strtok atoi atol atoll gets popen \
	localtime
