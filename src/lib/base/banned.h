/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calls that do not compile here. The build includes this file into every source file (meson.build), after
 * the system headers that declare the calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* These are macros where the compiler fortifies them. */
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strcat strncpy sprintf vsprintf strtok atoi atol atoll gets popen \
	localtime
