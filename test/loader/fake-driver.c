/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver library for the loader tests, which answers which file it came from (ORIGIN): libcuda.so.1,
 * or with -DNVML libnvidia-ml.so.1. It lacks most names of the list, and has some that the list does not know
 * (a function and a variable), as a newer driver would.
 */
#include <stdint.h>
#include <string.h>

#ifdef NVML
unsigned int nvmlInit_v2(void);
unsigned int nvmlSystemGetCudaDriverVersion(int *version);
unsigned int nvmlNewInThisDriver(void);

unsigned int nvmlInit_v2(void)
{
	return 0;
}

unsigned int nvmlSystemGetCudaDriverVersion(int *version)
{
	*version = ORIGIN;
	return 0;
}

unsigned int nvmlNewInThisDriver(void)
{
	return 4711;
}
#else
unsigned int cuInit(unsigned int flags);
unsigned int cuDriverGetVersion(int *version);
unsigned int cuNewInThisDriver(void);
unsigned int cuTexRefGetMipmapLevelBias(long a, long b, long c, long d, long e, long f, long g,
	double x, double y, double z, double u, double v, double w, double s, double t);
unsigned int cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags);
unsigned int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags,
	unsigned int *status);
extern int cudbgNewVariable;

int cudbgNewVariable = 4712;

unsigned int cuInit(unsigned int flags)
{
	return flags ? 1 : 0;
}

unsigned int cuDriverGetVersion(int *version)
{
	*version = ORIGIN;
	return 0;
}

unsigned int cuNewInThisDriver(void)
{
	return 4711;
}

/* The parameters differ from NVIDIA's: as many as registers can hold, and one more. */
unsigned int cuTexRefGetMipmapLevelBias(long a, long b, long c, long d, long e, long f, long g,
	double x, double y, double z, double u, double v, double w, double s, double t)
{
	return a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && x == 1.5 &&
			       y == 2.5 && z == 3.5 && u == 4.5 && v == 5.5 && w == 6.5 &&
			       s == 7.5 && t == 8.5
		       ? 0
		       : 1;
}

#	ifdef REENTER
/* A driver that uses itself while it is loaded, by its public names. */
#		include <dlfcn.h>
__attribute__((constructor)) static void reenter(void)
{
	void *self = dlopen("libcuda.so.1", RTLD_NOW);
	unsigned int (*fn)(int *) =
		self ? (unsigned int (*)(int *))dlsym(self, "cuDriverGetVersion") : 0;
	int version;

	if (!fn || fn(&version) != 0 || version != ORIGIN)
		__builtin_trap();
}
#	endif

/* The new names of enough buckets that most chains are moved. */
#	define A1(n)                \
		void cuNew##n(void); \
		void cuNew##n(void) {}
#	define A8(n)  A1(n##0) A1(n##1) A1(n##2) A1(n##3) A1(n##4) A1(n##5) A1(n##6) A1(n##7)
#	define A64(n) A8(n##0) A8(n##1) A8(n##2) A8(n##3) A8(n##4) A8(n##5) A8(n##6) A8(n##7)
A64(A)
#	ifdef MANY /* than there is room for */
#		define A512(n)   \
			A64(n##0) \
			A64(n##1) A64(n##2) A64(n##3) A64(n##4) A64(n##5) A64(n##6) A64(n##7)
A512(B)
A512(C)
#	endif

/* Flag 2 has a variant of its own; version 1 is too old for all. */
unsigned int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags,
	unsigned int *status)
{
	static const struct {
		const char *name;
		int from, below;
		void *fn;
	} rows[] = {
		{ "cuInit", 2000, 99999, (void *)cuInit },
		{ "cuDriverGetVersion", 2020, 99999, (void *)cuDriverGetVersion },
		{ "cuGetProcAddress", 11030, 12000, (void *)cuGetProcAddress },
		{ "cuGetProcAddress", 12000, 99999, (void *)cuGetProcAddress_v2 },
	};

	if (flags > 3)
		return 1;
	*fn = 0;
	if (status)
		*status = 1;
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(rows[i].name, name) == 0 && version >= rows[i].from &&
			version < rows[i].below) {
			*fn = rows[i].fn;
			if (status)
				*status = 0;
			return 0;
		}
	return 500;
}

unsigned int cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(name, fn, version, flags, 0);
}
#endif
