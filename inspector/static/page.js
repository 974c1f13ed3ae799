"use strict";
// All that the page does without a request of its visitor: it loads itself anew when what it shows has changed, and helps to write SQL.

const status = document.getElementById("status");

// refresh loads the page anew, and puts what is new into the place of what is shown. What is open stays open.
let loading = false, again = false;
async function refresh() {
	if (loading) { again = true; return; }
	const main = document.getElementById("main");
	const at = document.activeElement;
	if (at && at !== main && main.contains(at) && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) { return; }
	loading = true;
	try {
		const answer = await fetch(location.href);
		if (answer.redirected) { location.reload(); return; }
		const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
		const open = new Set([...main.querySelectorAll("details")].map((d, i) => d.open ? i : -1));
		next.querySelectorAll("details").forEach((d, i) => { d.open = open.has(i); });
		const scrolled = [...main.querySelectorAll(".scroll")].map((s) => s.scrollLeft);
		const focused = at && main.contains(at) ? [...main.querySelectorAll("a, summary, [tabindex]")].indexOf(at) : -1;
		main.replaceChildren(...document.adoptNode(next).childNodes);
		main.querySelectorAll(".scroll").forEach((s, i) => { s.scrollLeft = scrolled[i] ?? 0; });
		if (focused >= 0) { main.querySelectorAll("a, summary, [tabindex]")[focused]?.focus({ preventScroll: true }); }
		main.dataset.loads = String(Number(main.dataset.loads ?? 0) + 1);
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
		let lost = false;
		source.onopen = () => { main.dataset.listens = "true"; if (lost) { lost = false; soon(); } };
		source.onerror = () => { lost = true; };
		for (const kind of ["commit", "drop", "lost"]) { source.addEventListener(kind, soon); }
	};
	box.addEventListener("change", start);
	document.addEventListener("visibilitychange", start);
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
