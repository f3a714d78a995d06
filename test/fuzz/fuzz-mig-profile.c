/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "model/mig/profile.h"

#include <string.h>

/* A name out of a config file or of NVML. What is one is read again from what is written. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[256], name[MIG_PROFILE_NAME_MAX], word[MIG_PROFILE_NAME_MAX];
	struct mig_profile p, again;
	struct error err = ERROR_INIT;

	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (mig_profile_parse(&p, text, &err) < 0) {
		if (err.code != ERR_INVALID || !err.msg[0])
			__builtin_trap();
		return 0;
	}
	mig_profile_format(&p, name);
	mig_profile_word(&p, word);
	if (mig_profile_parse(&again, name, NULL) < 0 || !mig_profile_equal(&p, &again) ||
		strlen(name) > strlen(text) || strlen(word) != strlen(name) ||
		strpbrk(word, "+,"))
		__builtin_trap();
	return 0;
}
