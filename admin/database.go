package admin

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// ImportDatabase has the process that has the store make the SQLite database that file has, with a rollback journal, the actor's, in one transaction: on
// an error the old one stays. file is not closed. With create an actor that doesn't exist is made. Errors: *Error, one of the network.
func (c *Client) ImportDatabase(ctx context.Context, actor string, create bool, file io.Reader) error {
	path := "/v1/actors/" + url.PathEscape(actor) + "/database"
	if create {
		path += "?create=true"
	}
	return c.do(ctx, http.MethodPut, path, mediaDatabase, io.NopCloser(file), &None{})
}
