package admin

import (
	_ "embed"
	"net/http"
)

// document describes the API in OpenAPI 3.0.3. TestDocument writes it from routes, with -update.
//
//go:embed openapi.json
var document []byte

func documentRoute() route {
	return route{
		method: http.MethodGet, path: "/v1/openapi.json", what: "This document.", gives: "application/json", reads: true,
		serve: func(_ *Server, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(document) // what doesn't arrive the client misses
		},
	}
}
