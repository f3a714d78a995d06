/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `gpuslice plan --translate FILE...`. Thread: main. */
#include "lib/base/error.h"
#include "lib/base/strv.h"

/* Prints what the Provisioners of @files are today, below notes on what was wrong in them. */
int plan_translate(const struct strv *files, struct error *err) MUST_USE;
