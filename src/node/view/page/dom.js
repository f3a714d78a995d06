// SPDX-License-Identifier: Apache-2.0
// Elements from data: text is always text. And morph(), which brings what is on the page to what it should be without
// taking the focus, the open details or the place in a scrolled table from who reads it.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
	for (const [name, value] of Object.entries(attributes || {})) {
		if (value === null || value === undefined || value === false)
			continue;
		if (name === "style") {
			/* By the object model: the page's policy allows no style attributes. */
			for (const [property, v] of Object.entries(value))
				element.style.setProperty(property, v);
		} else {
			element.setAttribute(name, value === true ? "" : String(value));
		}
	}
	for (const child of children.flat(Infinity)) {
		if (child !== null && child !== undefined && child !== false)
			element.append(child instanceof Node ? child : String(child));
	}
	return element;
}

export function h(tag, attributes, ...children) {
	return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
	return fill(document.createElementNS(SVG, tag), attributes, children);
}

function alike(a, b) {
	return a.nodeName === b.nodeName && (a.nodeType !== Node.ELEMENT_NODE ||
		a.getAttribute("data-key") === b.getAttribute("data-key"));
}

function morphAttributes(from, to) {
	for (const { name } of [...from.attributes]) {
		/* Whether details are open is the reader's. */
		if (name !== "style" && name !== "open" && !to.hasAttribute(name))
			from.removeAttribute(name);
	}
	for (const { name, value } of to.attributes) {
		if (name !== "style" && name !== "open" && from.getAttribute(name) !== value)
			from.setAttribute(name, value);
	}
	if (from.style.cssText !== to.style.cssText)
		from.style.cssText = to.style.cssText;
}

export function morph(from, to) {
	if (from.nodeType === Node.TEXT_NODE) {
		if (from.data !== to.data)
			from.data = to.data;
		return;
	}
	morphAttributes(from, to);
	const wanted = [...to.childNodes];
	wanted.forEach((child, i) => {
		const here = from.childNodes[i];
		if (!here)
			from.append(child);
		else if (alike(here, child))
			morph(here, child);
		else
			here.replaceWith(child);
	});
	while (from.childNodes.length > wanted.length)
		from.lastChild.remove();
}

/* A table that scrolls by itself where it is too wide. @columns: [title, "number"?]; cells: text or nodes. */
export function table(caption, columns, rows, empty) {
	const cell = (value, i) => i === 0 ? h("th", { scope: "row" }, value) :
		h("td", { class: columns[i][1] }, value);
	if (!rows.length)
		return h("p", { class: "quiet" }, empty);
	return h("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption },
		h("table", null,
			h("caption", null, caption),
			h("thead", null, h("tr", null, columns.map(([title, kind]) =>
				h("th", { scope: "col", class: kind }, title)))),
			h("tbody", null, rows.map((row) => h("tr", null, row.map(cell))))));
}
