/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * The fuzz targets without a fuzzer: every file of the directories that are named on the command
 * line, each of them cut short and with changed bytes, and inputs that parsers dislike. The same
 * inputs at each run, so a failure can be run again. `replay FILE` runs one input exactly.
 */
#define FILE_MAX   (4U << 20) /* bytes; larger corpus files are a mistake */
#define VARIANTS   64         /* of each kind for each file */
#define VARIED_MAX 65536      /* bytes; longer files are run as they are */
#define LONG_INPUT 65536

static size_t n_inputs;

/* A copy of exactly the right size, so that a sanitizer sees the first byte read too far. */
static void run_one(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy) {
		perror("malloc");
		exit(1);
	}
	if (size)
		memcpy(copy, data, size);
	(void)LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	n_inputs++;
}

static void run_variants(uint8_t *data, size_t size)
{
	size_t step = size / VARIANTS + 1;
	uint32_t seed = 2463534242U;

	for (size_t len = 0; len < size; len += step)
		run_one(data, len);
	for (int i = 0; size && i < VARIANTS; i++) {
		size_t at;
		uint8_t old;

		seed ^= seed << 13;
		seed ^= seed >> 17;
		seed ^= seed << 5;
		at = seed % size;
		old = data[at];
		data[at] = (uint8_t)(seed >> 24);
		run_one(data, size);
		data[at] = old;
	}
}

static bool run_file(const char *path, bool vary)
{
	static uint8_t data[FILE_MAX];
	FILE *f = fopen(path, "rbe");
	size_t size;
	bool ok;

	if (!f) {
		fprintf(stderr, "open '%s': %s\n", path, strerror(errno));
		return false;
	}
	size = fread(data, 1, sizeof(data), f);
	ok = !ferror(f) && feof(f);
	(void)fclose(f);
	if (!ok) {
		fprintf(stderr, "'%s': cannot be read, or has more than %u bytes\n", path,
			FILE_MAX);
		return false;
	}
	run_one(data, size);
	if (vary && size <= VARIED_MAX)
		run_variants(data, size);
	return true;
}

static bool run_dir(const char *path)
{
	struct dirent **names = NULL;
	int n = scandir(path, &names, NULL, alphasort);
	bool ok = true;

	if (n < 0) {
		fprintf(stderr, "read directory '%s': %s\n", path, strerror(errno));
		return false;
	}
	for (int i = 0; i < n; i++) {
		char file[4096];
		struct stat st;

		(void)snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
		if (ok && stat(file, &st) == 0 && S_ISREG(st.st_mode))
			ok = run_file(file, true);
		free(names[i]);
	}
	free(names);
	return ok;
}

static void run_synthetic(void)
{
	static const char *const repeats[] = { "a", "[", "{", "\"", "- ", "a:\n ", "&a [*a,",
		"\\u", "9", "\n", "\xff", "\xc3", "\x08" };
	static uint8_t data[LONG_INPUT + 1];

	run_one(data, 0);
	for (int c = 0; c < 256; c++) {
		data[0] = (uint8_t)c;
		run_one(data, 1);
	}
	memset(data, 0, sizeof(data));
	run_one(data, LONG_INPUT);
	for (size_t i = 0; i < sizeof(repeats) / sizeof(repeats[0]); i++) {
		size_t len = strlen(repeats[i]);

		for (size_t at = 0; at < LONG_INPUT; at++)
			data[at] = (uint8_t)repeats[i][at % len];
		run_one(data, 64);
		run_one(data, LONG_INPUT);
	}
}

int main(int argc, char **argv)
{
	bool one = false;

	for (int i = 1; i < argc; i++) {
		struct stat st;

		/* A directory that is not there is an empty corpus. */
		if (stat(argv[i], &st) < 0 && errno == ENOENT)
			continue;
		if (S_ISDIR(st.st_mode) ? !run_dir(argv[i]) : !run_file(argv[i], false))
			return 1;
		one |= !S_ISDIR(st.st_mode);
	}
	if (!one)
		run_synthetic();
	printf("%zu inputs\n", n_inputs);
	return 0;
}
