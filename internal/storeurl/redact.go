package storeurl

import (
	"net/url"
	"strings"
)

// Display returns the name of a store as it may be shown: of an address of PostgreSQL
// without the password, and without the parameters, any of which may hold one, except
// the schema; of what names no store, what Redact leaves of it.
func Display(name string) string {
	kind, address, err := Parse(name)
	if err != nil {
		return Redact(name)
	}
	if kind != Postgres {
		return name
	}
	base, query, _ := strings.Cut(address, "?")
	scheme, rest, found := strings.Cut(base, "://")
	if !found {
		return string(Postgres) + ":…" // whatever that is
	}
	// A password that isn't escaped as it should be may have any of these in it.
	if strings.LastIndexByte(address, '@') > len(base) {
		return scheme + "://…"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, _, _ := strings.Cut(rest[:at], ":")
		rest = user + rest[at:]
	}
	shown := scheme + "://" + rest
	if q, err := url.ParseQuery(query); err == nil && q.Has("schema") {
		shown += "?schema=" + url.QueryEscape(q.Get("schema"))
	}
	return shown
}

// Redact returns text as it may be shown in a message: if it could be an address, however
// mistyped, without what could be a password in it. It is for what someone typed where
// a store, or something else, was expected. Other text stays as it is.
//
// A password that isn't escaped as it should be may have any character in it: it ends
// with the last "@". Where it begins can't be told then; so everything before the "@"
// goes.
func Redact(text string) string {
	head, rest, slashes := strings.Cut(text, "//")
	if !slashes || strings.ContainsAny(strings.TrimSuffix(head, ":"), ":@") {
		return redactBare(text) // the slashes, if any, may be in a password
	}
	head += "//"
	base, _, hasQuery := strings.Cut(rest, "?")
	at := strings.LastIndexByte(rest, '@')
	if at > len(base) {
		return head + "…"
	}
	if at >= 0 && hasUserinfo(text) {
		base = "…" + base[at:]
	}
	if hasQuery {
		base += "?…" // a parameter may be a password as well
	}
	return head + base
}

// redactBare is Redact for what doesn't begin with a word and two slashes.
func redactBare(text string) string {
	before, after, colon := strings.Cut(text, ":")
	_, query, _ := strings.Cut(after, "?")
	if colon && (strings.Contains(after, "@") || strings.Contains(query, "=")) {
		return before + ":…"
	}
	return text
}

// hasUserinfo says whether text could hold user:password@host.
func hasUserinfo(text string) bool {
	_, after, _ := strings.Cut(text, ":")
	return strings.Contains(after, "@")
}
