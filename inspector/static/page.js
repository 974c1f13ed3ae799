"use strict";
// All that the page does without a request of its visitor: it loads itself anew when what it shows has changed, and helps to write SQL.

const status = document.getElementById("status");

// written reports whether a field has something that the page didn't write into it.
function written(f) {
	if (f.tagName === "SELECT") { return f.selectedIndex !== Math.max(0, [...f.options].findLastIndex((o) => o.defaultSelected)); }
	return f.type !== "hidden" && f.value !== f.defaultValue;
}

// busy reports whether the visitor would lose something if what main shows was replaced now: the place in a field, what is written there, a click that has begun,
// or text that is marked.
let pressed = false;
function busy(main) {
	const at = document.activeElement, marked = getSelection(), fields = [...main.querySelectorAll("input, select, textarea")];
	return pressed || fields.includes(at) || fields.some(written) || !marked.isCollapsed && main.contains(marked.anchorNode);
}

// placed returns the elements of a kind by what tells each from others: the first cell of its row, the parts of a tree that it is in, and its own link or label. So
// they are found again on a page that has other rows before them.
function placed(main, kind) {
	const all = new Map();
	for (const e of main.querySelectorAll(kind)) {
		const words = [e.tagName, e.closest("tr")?.cells[0].textContent ?? "", e.getAttribute("href") ?? e.getAttribute("aria-label") ?? ""];
		for (let d = e.closest("details"); d; d = d.parentElement.closest("details")) { words.push(d.querySelector("summary b")?.textContent ?? ""); }
		let n = 0;
		while (all.has(words.join("\n") + n)) { n++; }
		all.set(words.join("\n") + n, e);
	}
	return all;
}

// replace puts what is new into the place of what main shows. What is open stays open, and what has the focus keeps it.
function replace(main, next) {
	const open = placed(main, "details"), focusable = "a, button, summary, [tabindex]", scrolling = ".scroll, pre";
	placed(next, "details").forEach((d, name) => { d.open = open.get(name)?.open ?? d.open; });
	const at = [...placed(main, focusable)].find(([, e]) => e === document.activeElement)?.[0];
	const scrolled = new Map([...placed(main, scrolling)].map(([name, e]) => [name, [e.scrollLeft, e.scrollTop]]));
	main.replaceChildren(...document.adoptNode(next).childNodes);
	placed(main, scrolling).forEach((e, name) => { [e.scrollLeft, e.scrollTop] = scrolled.get(name) ?? [0, 0]; });
	if (at) { placed(main, focusable).get(at)?.focus({ preventScroll: true }); }
	main.dataset.loads = String(Number(main.dataset.loads ?? 0) + 1);
}

// refresh loads the page anew, and shows what is new as soon as that takes nothing from the visitor.
let loading = false, again = false, waiting = false;
async function refresh() {
	if (loading) { again = true; return; }
	const main = document.getElementById("main");
	const wait = () => { waiting = true; status.textContent = "There is something new. It is shown when you have sent, or taken back, what you write or mark."; };
	if (busy(main)) { wait(); return; }
	loading = true;
	try {
		const answer = await fetch(location.href);
		const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
		if (busy(main)) { wait(); return; } // since just now
		if (answer.redirected) { location.reload(); return; }
		replace(main, next);
		status.textContent = "";
	} catch (e) {
		status.textContent = "The store can't be reached.";
	} finally {
		loading = false;
	}
	if (again) { again = false; soon(); }
}

let timer = 0;
function soon() { if (!timer) { timer = setTimeout(() => { timer = 0; refresh(); }, 300); } }

// retry is how long the page waits before it asks again for a stream that it was refused.
const retry = 10000;

function live() {
	const main = document.getElementById("main"), box = document.getElementById("live");
	if (!main.dataset.live || !box) { return; }
	let source = null, clock = 0;
	const stop = () => { source?.close(); source = null; clearInterval(clock); clock = 0; };
	const start = () => {
		stop();
		if (!box.checked || document.hidden) { return; }
		if (main.dataset.live === "clock") { clock = setInterval(refresh, 2000); return; }
		source = new EventSource("/events?actor=" + encodeURIComponent(main.dataset.actor));
		// What was committed before the stream began it doesn't tell.
		source.onopen = () => { main.dataset.listens = "true"; soon(); };
		source.onerror = () => {
			if (source.readyState !== EventSource.CLOSED) { return; } // the browser asks again
			stop();
			clock = setInterval(start, retry);
			soon();
		};
		for (const kind of ["commit", "drop", "lost"]) { source.addEventListener(kind, soon); }
	};
	box.addEventListener("change", start);
	document.addEventListener("visibilitychange", start);
	const done = () => { if (waiting) { waiting = false; soon(); } };
	for (const kind of ["input", "change", "focusout", "reset", "selectionchange"]) { document.addEventListener(kind, done); }
	document.addEventListener("pointerdown", () => { pressed = true; });
	for (const kind of ["pointerup", "pointercancel"]) { document.addEventListener(kind, () => { pressed = false; done(); }); }
	start();
}

// console offers names of tables and columns, and the statements that were run before.
function sql() {
	const form = document.getElementById("console");
	if (!form) { return; }
	const text = document.getElementById("sql"), box = document.getElementById("names"), past = document.getElementById("history");
	const words = JSON.parse(document.getElementById("words").textContent) ?? [];
	const begun = () => /[\p{L}\p{N}_$]+$/u.exec(text.value.slice(0, text.selectionStart))?.[0] ?? "";
	const take = (word) => {
		const from = text.selectionStart - begun().length;
		text.setRangeText(/^[\p{L}_][\p{L}\p{N}_$]*$/u.test(word) ? word : '"' + word.replaceAll('"', '""') + '"', from, text.selectionStart, "end");
		text.focus();
		offer();
	};
	const offer = () => {
		const start = begun().toLowerCase();
		const fit = start ? words.filter((w) => w.toLowerCase().startsWith(start) && w.toLowerCase() !== start).slice(0, 8) : [];
		box.replaceChildren(...fit.map((w) => {
			const b = document.createElement("button");
			b.type = "button"; b.className = "quiet"; b.textContent = w;
			b.addEventListener("click", () => take(w));
			return b;
		}));
		box.hidden = fit.length === 0;
	};
	text.addEventListener("input", offer);
	text.addEventListener("keydown", (e) => {
		if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); form.requestSubmit(); }
		if (e.key === " " && e.ctrlKey && box.firstChild) { e.preventDefault(); take(box.firstChild.textContent); }
	});
	const key = "greenroom sql " + location.pathname;
	let ran = [];
	try { ran = JSON.parse(sessionStorage.getItem(key)) ?? []; } catch (e) { }
	for (const r of ran) { past.append(new Option(r.slice(0, 80), r)); }
	past.hidden = ran.length === 0;
	past.addEventListener("change", () => { if (past.value) { text.value = past.value; past.value = ""; text.focus(); } });
	form.addEventListener("submit", () => {
		ran = [text.value, ...ran.filter((r) => r !== text.value)].slice(0, 50);
		try { sessionStorage.setItem(key, JSON.stringify(ran)); } catch (e) { }
	});
}

// login takes the token from a link of greenroom serve, which has it behind #, where no server and no log sees it.
function login() {
	const form = document.getElementById("login"), token = new URLSearchParams(location.hash.slice(1)).get("token");
	if (form && token) {
		history.replaceState(null, "", location.pathname + location.search);
		document.getElementById("token").value = token;
		form.requestSubmit();
	}
}

// Forms ask before they do what can't be taken back.
document.addEventListener("submit", (e) => {
	const ask = e.submitter?.dataset.confirm;
	if (ask && !confirm(ask)) { e.preventDefault(); }
});

live();
sql();
login();
