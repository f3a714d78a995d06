/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exit statuses of every command, as in gpuslice(1):
 *	0         success, and no finding
 *	1         the command did its work, and the answer is no: EXIT_FINDING
 *	2 to 12   the command could not do its work, by the kind of error (lib/base/error.c); 2 is wrong usage
 *	          or invalid input
 *	13        the command did its work, and some of the answer is unknown: EXIT_INCONCLUSIVE
 *	70        a bug (lib/base/error.c)
 *
 * SIGPIPE ends a command whose output the reader has closed, as usual. `gpuslice mig` replaces
 * nvidia-mig-parted, so all its failures have that program's status 1: struct cmd has .exit_code for this.
 */
#define EXIT_FINDING      1
#define EXIT_INCONCLUSIVE 13
