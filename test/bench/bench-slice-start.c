/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the preload libraries add to the start of a process that never calls the driver: /bin/true from the spawn
 * to the end, bare and with both libraries, alternating, one process at a time and 300 at once. By LD_PRELOAD,
 * which does what /etc/ld.so.preload does without the reading of one file.
 *
 * usage: bench-slice-start CUDA.so NVML.so
 */
#include <inttypes.h>
#include <stdbool.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "lib/base/time.h"

#define PARALLEL   300
#define ROUNDS_MAX 4000

static char path[] = "/bin/true";
static char *const program[] = { path, NULL };

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Nanoseconds for @n starts at once; 0: one failed. */
static uint64_t measure_start_ns(unsigned int n, char *const *environment)
{
	uint64_t begin = time_mono_ns();
	pid_t pids[PARALLEL];
	bool good = true;
	int status;

	for (unsigned int i = 0; i < n; i++)
		if (posix_spawn(&pids[i], path, NULL, NULL, program, environment) != 0)
			return 0;
	for (unsigned int i = 0; i < n; i++)
		good = waitpid(pids[i], &status, 0) == pids[i] && status == 0 && good;
	return good ? time_mono_ns() - begin : 0;
}

/* Median and the best tenth of @rounds, alternating; us for each start. */
static int measure_rounds(unsigned int n, unsigned int rounds, char *const *preload)
{
	static uint64_t took[2][ROUNDS_MAX];
	char *const none[] = { NULL };
	double us[2][2];

	for (unsigned int r = 0; r < rounds; r++)
		for (unsigned int with = 0; with < 2; with++) {
			took[with][r] = measure_start_ns(n, with ? preload : none);
			if (!took[with][r]) {
				fprintf(stderr, "a start failed\n");
				return 1;
			}
		}
	for (unsigned int with = 0; with < 2; with++) {
		qsort(took[with], rounds, sizeof(took[0][0]), compare_times);
		us[with][0] = (double)took[with][rounds / 2] / 1e3 / n;
		us[with][1] = (double)took[with][rounds / 10] / 1e3 / n;
	}
	printf("%3u at once: bare %7.1f us, with both libraries %7.1f us, added %6.1f us "
	       "(median of %u rounds; best tenth: %.1f, %.1f, %.1f)\n",
		n, us[0][0], us[1][0], us[1][0] - us[0][0], rounds, us[0][1], us[1][1],
		us[1][1] - us[0][1]);
	return 0;
}

int main(int argc, char **argv)
{
	bool brief = getenv("BENCH_SHORT") != NULL;
	char variable[8192];
	char *const preload[] = { variable, NULL };
	char *cuda, *nvml;
	int n;

	if (argc != 3) {
		fprintf(stderr, "usage: bench-slice-start CUDA.so NVML.so\n");
		return 2;
	}
	cuda = realpath(argv[1], NULL);
	nvml = realpath(argv[2], NULL);
	n = snprintf(variable, sizeof(variable), "LD_PRELOAD=%s:%s", cuda ? cuda : "",
		nvml ? nvml : "");
	if (!cuda || !nvml || n < 0 || (size_t)n >= sizeof(variable)) {
		fprintf(stderr, "cannot find %s or %s\n", argv[1], argv[2]);
		return 1;
	}
	free(cuda);
	free(nvml);
	return measure_rounds(1, brief ? 200 : ROUNDS_MAX, preload) ||
	       measure_rounds(PARALLEL, brief ? 3 : 40, preload);
}
