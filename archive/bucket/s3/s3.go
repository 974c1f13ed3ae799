// Package s3 is for buckets of S3 servers: Amazon's, and others that speak its protocol.
//
// What package bucket promises rests on the server here. A Put is one request, or for a larger body an upload in parts that ends
// with one request, and Once is its header If-None-Match. The first Put finds out whether the server ignores the header, and refuses one that
// does. Reading takes no right to write.
//
// An operation that fails because of the network or of the server is tried again. If the server had done it before, and only its
// answer was lost, the second attempt of a Put with Once finds an object of its name. Put recognises its own: each Put writes
// a random name of its own into the object's metadata.
//
// Nothing can take a request back that is on its way. An attempt that this package has given up may reach the
// server later: after a Put that failed, or that succeeded by a second attempt. With Once a late attempt finds the object and changes
// nothing, unless it was deleted meanwhile. Without, it may put the older body in the place of a newer one. Where that
// matters, a writer takes a new name for each object.
//
// A process that is killed while it uploads parts leaves them in the bucket, where List doesn't show them and where they cost money.
// A lifecycle rule of the bucket, AbortIncompleteMultipartUpload, removes them.
//
// Directory buckets (S3 Express One Zone) list their objects in no order; List fails on them.
package s3

// Files, from the top down:
//
//	s3.go bucket.go upload.go reader.go server.go retry.go errors.go

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// Options say how to reach a bucket. The zero Options reach a bucket of Amazon's with what the environment says.
type Options struct {
	// Endpoint is the URL of the server: http or https, a host, and a port if need be. If it is empty, the parameter endpoint of the
	// bucket's URL is taken, or AWS_ENDPOINT_URL_S3, or AWS_ENDPOINT_URL, or https://s3.amazonaws.com.
	Endpoint string
	// Region is where the bucket is. If it is empty, the parameter region of the URL is taken, or AWS_REGION, or AWS_DEFAULT_REGION, or
	// what the server says.
	Region string
	// Style says where in the URL of a request the name of the bucket is. If it is StyleAuto, the parameter path-style of the URL, true or
	// false, says it.
	Style Style
	// Credentials are whose the requests are. If it is nil, they are those of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
	// AWS_SESSION_TOKEN, or those of the profile AWS_PROFILE in ~/.aws/credentials and ~/.aws/config, or those that the
	// container or the machine has by its role. If there are none, requests are not signed.
	Credentials *Credentials
	// Patience is how long an operation is tried again that fails because of the network or of the server. Zero means 30 seconds,
	// and less that nothing is tried again. A part of a large object counts by itself.
	Patience time.Duration
}

// Credentials are a key of an S3 server. Session is the token of one that is valid for a while, or empty.
type Credentials struct{ AccessKeyID, SecretAccessKey, Session string }

// Style is where in the URL of a request the name of the bucket is.
type Style int

const (
	// StyleAuto puts it into the host for the clouds whose servers are known to want that, and into the path for others.
	StyleAuto Style = iota
	// StylePath puts it into the path.
	StylePath
	// StyleHost puts it before the name of the host.
	StyleHost
)

// Open returns the bucket of a URL s3://BUCKET/PREFIX, in which the names of objects come after the prefix and a slash. The prefix
// may be empty. The URL may have the parameters endpoint, region and path-style; see Options. opts may be nil.
//
// Open changes nothing in the bucket. The error is ErrURL, ErrUnreachable, ErrNoBucket or ErrAccess.
//
// The first Put stores an object of a name that isn't one of package bucket's, and removes it, to find out how the server takes If-None-Match. The error
// is ErrUnconditional if the server ignores it, and the next Put tries again.
func Open(ctx context.Context, rawURL string, opts *Options) (bucket.Bucket, error) {
	if opts == nil {
		opts = &Options{}
	}
	where, err := parse(rawURL, *opts)
	if err != nil {
		return nil, err
	}
	style := map[Style]minio.BucketLookupType{StylePath: minio.BucketLookupPath, StyleHost: minio.BucketLookupDNS}[where.style]
	client, err := minio.NewCore(where.endpoint.Host, &minio.Options{
		Creds: opts.Credentials.provider(), Secure: where.endpoint.Scheme == "https", Region: where.region, BucketLookup: style,
		MaxRetries: 1, // retry.go does that for all operations alike
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrURL, rawURL, err)
	}
	s := &server{client: client, bucket: where.bucket, prefix: where.prefix, endpoint: where.endpoint.String(), patience: opts.Patience}
	if s.patience == 0 {
		s.patience = 30 * time.Second
	}
	if err := s.try(ctx, s.listOne); err != nil {
		return nil, s.explain("open", "", err)
	}
	return s, nil
}

// CheckURL returns the error that Open has for a URL which is malformed, ErrURL, without asking a server.
func CheckURL(rawURL string) error {
	_, err := parse(rawURL, Options{})
	return err
}

// place is what a URL and its options come to.
type place struct {
	bucket, prefix, region string
	endpoint               *url.URL
	style                  Style
}

// parse returns what a URL, options and the environment say.
func parse(rawURL string, opts Options) (place, error) {
	refuse := func(format string, args ...any) (place, error) {
		return place{}, fmt.Errorf("%w: %s: %s", ErrURL, rawURL, fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return place{}, fmt.Errorf("%w: %w", ErrURL, err)
	}
	if u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return refuse("it has the form s3://BUCKET/PREFIX?endpoint=…&region=…&path-style=true")
	}
	p := place{bucket: u.Host, style: opts.Style}
	if err := s3utils.CheckValidBucketName(p.bucket); err != nil {
		return refuse("%v", err)
	}
	if prefix := strings.Trim(u.Path, "/"); prefix != "" {
		if bucket.CheckName(prefix) != nil {
			return refuse("a prefix has letters, digits and the signs -_. in parts that are joined by slashes")
		}
		p.prefix = prefix + "/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return refuse("%v", err)
	}
	for name, values := range query {
		switch {
		case len(values) > 1:
			return refuse("the parameter %s is given twice", name)
		case name == "path-style":
			path, err := strconv.ParseBool(values[0])
			if err != nil {
				return refuse("path-style is true or false")
			}
			if p.style == StyleAuto {
				p.style = map[bool]Style{true: StylePath, false: StyleHost}[path]
			}
		case name != "endpoint" && name != "region":
			return refuse("there is no parameter %s", name)
		}
	}
	p.region = cmp.Or(opts.Region, query.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	endpoint := cmp.Or(opts.Endpoint, query.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com")
	p.endpoint, err = url.Parse(endpoint)
	if err != nil || p.endpoint.Scheme != "http" && p.endpoint.Scheme != "https" || p.endpoint.Host == "" || strings.Trim(p.endpoint.Path, "/") != "" {
		return refuse("the endpoint %s is not a URL http://HOST:PORT or https://HOST:PORT", endpoint)
	}
	return p, nil
}

// provider returns where a client takes its credentials from.
func (c *Credentials) provider() *credentials.Credentials {
	if c != nil {
		return credentials.NewStaticV4(c.AccessKeyID, c.SecretAccessKey, c.Session)
	}
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if off, err := strconv.ParseBool(os.Getenv("AWS_EC2_METADATA_DISABLED")); err != nil || !off {
		// On a machine that is not a cloud's the service isn't there, which it must not take long to find out.
		providers = append(providers, &credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}})
	}
	return credentials.NewChainCredentials(providers)
}
