/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exit statuses of every command, as gpuslice(1) has them:
 *
 *   0         success, and nothing was found that it was asked to look for
 *   1         it did its work, and the answer is no: EXIT_FINDING
 *   2 to 12   it could not do its work, by the kind of error (lib/base/error.c); 2 is wrong usage or invalid input
 *   13        it did its work, and some of the answer is not known: EXIT_INCONCLUSIVE
 *   70        a bug (lib/base/error.c)
 *
 * Whoever reads the output of a command and goes away ends it by SIGPIPE, as usual. `gpuslice mig` takes the place of
 * nvidia-mig-parted, so all its failures are 1, as of that program: struct cmd has .exit_code for it.
 */
#define EXIT_FINDING      1
#define EXIT_INCONCLUSIVE 13
