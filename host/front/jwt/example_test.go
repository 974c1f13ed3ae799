package jwt_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/host/front/jwt"
)

// Pages of one's own that callers with a token of an issuer see.
func Example() {
	published := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(all()) }))
	defer published.Close()

	v, err := jwt.New(context.Background(), &jwt.Options{
		Issuer:   "https://issuer.example",
		Audience: []string{"greenroom"},
		JWKS:     published.URL, // of a real issuer, it is named in /.well-known/openid-configuration
		Now:      exampleTime,   // a program leaves it out
	})
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()

	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := front.Bearer(r)
		if token == "" {
			http.Error(w, "a token is needed", http.StatusUnauthorized)
			return
		}
		caller, err := v.Verify(r.Context(), token)
		switch {
		case errors.Is(err, jwt.ErrUnavailable):
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusUnauthorized)
		default:
			fmt.Fprintf(w, "hello, %s", caller.Subject)
		}
	})
	for _, authorization := range []string{"", "Bearer " + exampleToken, "Bearer " + exampleToken[:len(exampleToken)-1]} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body)
	}

	// Output:
	// 401 a token is needed
	//
	// 200 hello, ada
	// 401 jwt: token refused: a part isn't in base64url
}

// What stands in for the issuer of the example, and for the time.
var exampleToken = es256("e", nil)

func exampleTime() (now time.Time) { return epoch }
