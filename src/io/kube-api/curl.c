/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kube-api/curl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

static int find_curl_symbol(void *lib, const char *name, void *field, struct error *err)
{
	void *sym = dlsym(lib, name);

	if (!sym)
		return error_set(err, ERR_UNSUPPORTED,
			CURL_SONAME " has no %s(); version " CURL_OLDEST_AS
				    " or later is needed (package libcurl4)",
			name);
	/* ISO C has no conversion from an object pointer to a function pointer; POSIX promises one. */
	memcpy(field, &sym, sizeof sym);
	return 0;
}

static int load_curl_table(struct curl_table *t, void *lib, struct error *err)
{
	const curl_version_info_data *version;

#define X(name)                                                              \
	if (find_curl_symbol(lib, "curl_" #name, (void *)&t->name, err) < 0) \
		return -1;
	CURL_FUNCTIONS(X)
#undef X
	version = t->version_info(CURLVERSION_NOW);
	if (version->version_num < CURL_OLDEST)
		return error_set(err, ERR_UNSUPPORTED,
			CURL_SONAME " is version %s; " CURL_OLDEST_AS
				    " or later is needed (package libcurl4)",
			version->version);
	if (!(version->features & CURL_VERSION_SSL))
		return error_set(err, ERR_UNSUPPORTED, CURL_SONAME " was built without TLS");
	if (t->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return error_set(err, ERR_UNSUPPORTED, CURL_SONAME " does not start");
	return 0;
}

int curl_open(struct curl_table *ret, const char *soname, struct error *err)
{
	struct curl_table t;
	void *lib = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		const char *why = dlerror();

		return error_set(err, ERR_UNSUPPORTED,
			"open %s, which talks to the API server (package libcurl4): %s", soname,
			why ? why : "?");
	}
	if (load_curl_table(&t, lib, err) < 0) {
		(void)dlclose(lib);
		return -1;
	}
	*ret = t;
	return 0;
}

int curl_get(const struct curl_table **ret, struct error *err)
{
	static struct curl_table table;
	static bool is_open;

	if (!is_open && curl_open(&table, CURL_SONAME, err) < 0)
		return -1;
	is_open = true;
	*ret = &table;
	return 0;
}
