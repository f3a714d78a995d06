/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

void agent_event(struct agent *a, enum event_type type, const char *reason, const char *fmt,
	...)
{
	(void)a;
	(void)type;
	(void)reason;
	(void)fmt;
}
