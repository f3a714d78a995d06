/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text to numbers, strictly: the whole text must be the value. Each function returns true and fills *ret, or
 * returns false and leaves *ret unchanged. No other code calls strto*().
 * Thread: any.
 */
#include <stdbool.h>
#include <stdint.h>

bool parse_u64(const char *text, uint64_t *ret);  /* decimal digits only */
bool parse_u32(const char *text, uint32_t *ret);  /* decimal digits only */
bool parse_i64(const char *text, int64_t *ret);   /* with an optional sign */
bool parse_double(const char *text, double *ret); /* finite; decimal or exponent form */

/* Exactly 1 t T TRUE true True 0 f F FALSE false False: Go's strconv.ParseBool. */
bool parse_bool(const char *text, bool *ret);

/*
 * Go's duration syntax, in nanoseconds: "1m30s", "500ms", "-5s", "1.5h", "0"; units ns us µs ms s m
 * h. A bare number other than 0 has no unit and is refused. Overflow is refused.
 * Source: https://pkg.go.dev/time#ParseDuration
 */
bool parse_duration(const char *text, int64_t *ret_ns);

/* Bytes in Kubernetes' quantity form: "4Gi", "512Mi", "8G", "1500M", "123". No sign. A fraction ("0.5Gi")
 * must give whole bytes. */
bool parse_bytes(const char *text, uint64_t *ret_bytes);

/* A Kubernetes quantity that is not negative, rounded to a double: "2", "0.5", "500m", "1.5Gi", "1e3".
 * Source: k8s.io/apimachinery/pkg/api/resource */
bool parse_quantity(const char *text, double *ret);
