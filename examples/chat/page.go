package chat

import (
	"embed"
	"io/fs"
	"net/http"

	"github.com/greenroomdb/greenroom/clients/js"
)

//go:embed page
var files embed.FS

// Page serves the page of a chat room, without anything from elsewhere, for
// front.Options.Pages.
func Page() http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic("chat: " + err.Error()) // the name is a constant
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(page))
	mux.Handle("/greenroom.js", http.FileServerFS(js.Files()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A guest's words are in the page as text alone. This policy holds if
		// they become part of the page all the same.
		w.Header().Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'")
		w.Header().Set("Referrer-Policy", "no-referrer")
		mux.ServeHTTP(w, r)
	})
}
