package engine

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// reach serves /gateway/…; rest is what follows.
func (g *gateway) reach(w http.ResponseWriter, r *http.Request, rest string) {
	a, target, err := g.resolve(r, rest)
	if err != nil {
		refuse(w, r, err)
		return
	}
	if isWebSocket(r) {
		err = serveSocket(g.core, w, r, &a, target)
	} else {
		err = serveRequest(g.core, w, r, &a, target)
	}
	if err != nil {
		refuse(w, r, err)
	}
}

// resolve returns for which actor a request is, and what follows it in the address.
func (g *gateway) resolve(r *http.Request, rest string) (a actorInfo, target string, err error) {
	who, target, own, err := splitAddress(r, rest)
	if err != nil {
		return a, "", err
	}
	if len(own) > 0 {
		a, err = g.query(r, who, own)
		return a, target, err
	}
	id, token, _ := strings.Cut(who, "@")
	if id, err = url.PathUnescape(id); err == nil {
		token, err = url.PathUnescape(token)
	}
	if err != nil || id == "" {
		return a, "", errNoRoute
	}
	if token == "" {
		token = tokenOf(r)
	}
	ns := "" // the id says which
	if err := g.authorize(r, ns, token); err != nil {
		return a, "", err
	}
	a, err = g.byID(r.Context(), ns, id)
	return a, target, err
}

// splitAddress takes an address below /gateway/ apart: rest is what follows that. The first result names the actor, together with own, the parameters of the
// gateway; target is the address that the actor gets.
func splitAddress(r *http.Request, rest string) (who, target string, own url.Values, err error) {
	if strings.Contains(rest, "//") {
		return "", "", nil, errNoRoute
	}
	who, target, _ = strings.Cut(rest, "/")
	target = "/" + target
	query, own, err := splitQuery(r.URL.RawQuery)
	if err != nil {
		return "", "", nil, invalid("the query is malformed")
	}
	if query != "" {
		target += "?" + query
	}
	if !utf8.ValidString(target) { // no message to a runner can have it
		return "", "", nil, invalid("the address isn't UTF-8")
	}
	return who, target, own, nil
}

// splitQuery takes the parameters of the gateway out of a query, and returns the others as they came.
func splitQuery(raw string) (rest string, own url.Values, err error) {
	var others []string
	for part := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(part, "=")
		if !strings.HasPrefix(name, "rvt-") {
			others = append(others, part)
			continue
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return "", nil, err
		}
		if own == nil {
			own = url.Values{}
		}
		own.Add(name, value)
	}
	return strings.Join(others, "&"), own, nil
}

// query finds the actor that the parameters of the gateway describe, and makes it if they say so.
func (g *gateway) query(r *http.Request, who string, own url.Values) (a actorInfo, err error) {
	name, err := url.PathUnescape(who)
	if err != nil || name == "" {
		return a, errNoRoute
	}
	if !utf8.ValidString(name + own.Get("rvt-key") + own.Get("rvt-runner") + own.Get("rvt-pool")) {
		return a, invalid("the address isn't UTF-8")
	}
	s := actorSpec{Namespace: own.Get("rvt-namespace"), Name: name, Runner: own.Get("rvt-runner")}
	if s.Runner == "" {
		s.Runner = own.Get("rvt-pool")
	}
	if s.Namespace == "" {
		s.Namespace = "default"
	}
	token := own.Get("rvt-token")
	if token == "" {
		token = tokenOf(r)
	}
	if err := g.authorize(r, s.Namespace, token); err != nil {
		return a, err
	}
	key := rivetstore.Key{}
	if own.Has("rvt-key") {
		key = strings.Split(own.Get("rvt-key"), ",")
	}
	s.Key = key.String()
	if text := own.Get("rvt-input"); text != "" {
		if s.Input, err = base64.RawURLEncoding.DecodeString(text); err != nil {
			return a, invalid("rvt-input isn't base64url")
		}
	}
	switch method := own.Get("rvt-method"); method {
	case "get":
		return g.find(r.Context(), s)
	case "getOrCreate":
		a, _, err = create(r.Context(), g.core, s)
		return a, err
	default:
		return a, invalid(fmt.Sprintf("rvt-method is %q, not get or getOrCreate", method))
	}
}
