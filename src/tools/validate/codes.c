/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/validate/codes.h"

static const struct {
	const char *name, *advice;
} rows[VALIDATE_CODE_COUNT_] = {
#define X(id, name, advice) [VALIDATE_CODE_##id] = { name, advice },
	VALIDATE_CODES(X)
#undef X
};

const char *validate_code_name(enum validate_code code)
{
	return rows[code < VALIDATE_CODE_COUNT_ ? code : VALIDATE_CODE_INTERNAL].name;
}

const char *validate_code_advice(enum validate_code code)
{
	return rows[code < VALIDATE_CODE_COUNT_ ? code : VALIDATE_CODE_INTERNAL].advice;
}
