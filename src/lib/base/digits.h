/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Figures beside the limits that they are judged by. Pure. Thread: any. */

/*
 * How many decimals, @min or more, @v needs as text to differ from @limit, for "%.*f". Equal ones need no more, nor
 * what is no number.
 */
int digits_to_differ(double v, double limit, int min);
