// SPDX-License-Identifier: Apache-2.0
// Figures as people read them. null is what the agent does not know; it is said, never shown as zero.

export const UNKNOWN = "not known";

const MILLION = 1e6;
const digits = (n, most) => n.toLocaleString("en", { maximumFractionDigits: most });

/* Millionths. */
export function percent(millionths) {
	if (millionths === null || millionths === undefined)
		return UNKNOWN;
	const p = millionths / MILLION * 100;
	return `${digits(p, p !== 0 && p < 10 ? 1 : 0)} %`;
}

export function bytes(n) {
	if (n === null || n === undefined)
		return UNKNOWN;
	if (n < 2 ** 30)
		return `${digits(n / 2 ** 20, 0)} MiB`;
	return `${digits(n / 2 ** 30, n < 100 * 2 ** 30 ? 1 : 0)} GiB`;
}

export function bytesOf(used, total) {
	return used === null && total === null ? UNKNOWN : `${bytes(used)} of ${bytes(total)}`;
}

export function duration(ns) {
	if (ns === null || ns === undefined)
		return UNKNOWN;
	const s = ns / 1e9;
	if (s < 1)
		return `${digits(ns / 1e6, 0)} ms`;
	if (s < 120)
		return `${digits(s, s < 10 ? 1 : 0)} s`;
	if (s < 7200)
		return `${Math.floor(s / 60)} min`;
	if (s < 172800)
		return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
	return `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}

export function count(n) {
	return n === null || n === undefined ? UNKNOWN : digits(n, 0);
}

/* Nano-units of a currency. */
export function money(nano, currency) {
	if (nano === null || nano === undefined)
		return UNKNOWN;
	const n = nano / 1e9;
	const most = Math.abs(n) < 1 ? 4 : 2;
	try {
		return n.toLocaleString("en", { style: "currency", currency,
			minimumFractionDigits: 2, maximumFractionDigits: most });
	} catch {
		return `${digits(n, most)} ${currency}`; /* not a code of ISO 4217 */
	}
}

/* "2026-11-25T12:00:00.000Z" as "12:00:00", with the date if that is another one than that of @now. */
export function moment(text, now) {
	if (!text)
		return UNKNOWN;
	const day = text.slice(0, 10);
	const clock = `${text.slice(11, 19)} UTC`;
	return now && now.slice(0, 10) === day ? clock : `${day} ${clock}`;
}

export function plural(n, one, many) {
	return `${count(n)} ${n === 1 ? one : many || `${one}s`}`;
}
