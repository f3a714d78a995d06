/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text of figures next to the limits that judge them. Pure. Thread: any. */

/* How many decimals, @min or more, the text of @v needs to differ from that of @limit, for "%.*f". Equal
 * values need no more, nor does a value that is not a number. */
int digits_to_differ(double v, double limit, int min);
