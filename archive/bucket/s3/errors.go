package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

var (
	// ErrURL says that the URL of a bucket, or an option, is malformed. Open returns it.
	ErrURL = errors.New("s3: not the URL of a bucket")
	// ErrNoBucket says that the server has no such bucket.
	ErrNoBucket = errkind.New("s3: the bucket doesn't exist", errkind.ErrNotFound)
	// ErrAccess says that the server doesn't know the credentials, or that they don't permit this.
	ErrAccess = errors.New("s3: access denied")
	// ErrUnreachable says that the server didn't answer, or that it couldn't do its work, for as long as Options.Patience says.
	ErrUnreachable = errors.New("s3: the server is unreachable")
	// ErrUnconditional says that the server ignores If-None-Match, so that two writers may replace each other's objects. Put returns it,
	// also with Once for a body of more than 5 GiB, if the server knows the header only in a single request.
	ErrUnconditional = errkind.New("s3: the server knows no conditional writes", errkind.ErrUnsupported)
)

// errReplaced says that the rest of an object can't be read, because there is another one of its name now.
var errReplaced = errors.New("s3: the object was replaced while it was read")

// errSlow says that an attempt took too long.
var errSlow = errors.New("s3: the server took too long")

// errLater is for what a server says may be tried again as a whole.
var errLater = errors.New("s3: something else was done to the object at the same time")

// answered returns what a server said of a request that it refused.
func answered(err error) (minio.ErrorResponse, bool) {
	var answer minio.ErrorResponse
	ok := errors.As(err, &answer)
	return answer, ok
}

// refused are codes of servers that didn't get a request as it was sent, with a status that says otherwise.
var refused = map[string]bool{
	"RequestTimeout": true, minio.IncompleteBody: true, minio.BadDigest: true, minio.XAmzContentSHA256Mismatch: true,
	minio.InternalError: true, "SlowDown": true, "ServiceUnavailable": true, "ExpiredToken": true, "Throttling": true,
}

// temporary reports whether an operation that failed with err may succeed when it is tried again.
func temporary(err error) bool {
	var final *finalError
	var certificate *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch answer, ok := answered(err); {
	case errors.As(err, &final), errors.As(err, &certificate), errors.As(err, &unknown), errors.Is(err, errReplaced), errors.Is(err, context.Canceled):
		return false
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, bucket.ErrExists), errors.Is(err, ErrUnconditional):
		return false
	case ok:
		return refused[answer.Code] || answer.StatusCode >= 500 && answer.StatusCode != http.StatusNotImplemented ||
			answer.StatusCode == http.StatusRequestTimeout || answer.StatusCode == http.StatusTooManyRequests
	}
	return !strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// missing reports whether a server says that an object doesn't exist.
func missing(answer minio.ErrorResponse) bool {
	return answer.Code == minio.NoSuchKey || answer.Code == "NotFound"
}

// denied reports whether a server says that a request isn't permitted. Some servers say of unknown keys that they aren't found.
func denied(answer minio.ErrorResponse) bool {
	switch answer.Code {
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "XAdminUserNotFound":
		return true
	}
	return answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized
}

// conflict reports whether a server refused a conditional write: because the object exists, or because something else was done to it.
func conflict(err error) (exists, other bool) {
	answer, ok := answered(err)
	exists = answer.StatusCode == http.StatusPreconditionFailed || answer.Code == minio.PreconditionFailed
	other = answer.StatusCode == http.StatusConflict || answer.Code == "ConditionalRequestConflict" || answer.Code == "OperationAborted"
	return ok && exists, ok && other
}

// finalError is an error that another attempt would have, too.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// noUpload reports whether a server says that it knows no such upload in parts. It is over then: it was completed or aborted.
func noUpload(err error) bool {
	answer, ok := answered(err)
	return ok && answer.Code == minio.NoSuchUpload
}
