package serving

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/s3"
	"github.com/greenroomdb/greenroom/archive/bucket/sealed"
)

// DestinationFlags say where backups are, besides DEST, and how they are encrypted.
type DestinationFlags struct {
	key        string
	recipients string
}

// DestinationHelp is what commands say about DEST.
const DestinationHelp = `DEST is a folder, or s3://BUCKET/PREFIX. Of S3 the credentials, the region and the endpoint come from
the usual environment and files (AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL_S3,
~/.aws), or from the URL: s3://BUCKET/PREFIX?endpoint=https://s3.lan&region=us-east-1&path-style=true.
--key names a file with an identity of age (age-keygen -o FILE): all of the backup is encrypted for it,
and nothing can be read without it.`

// Flags adds the flags.
func (f *DestinationFlags) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.key, "key", "", "`file` with the identity of age for which the backup is encrypted")
	cmd.Flags().StringVar(&f.recipients, "recipients", "", "`file` with recipients of age for which it is encrypted, too")
}

// Open returns the bucket of DEST. It is reached when it is first used.
func (f *DestinationFlags) Open(dest string) (bucket.Bucket, error) {
	b, err := openBucket(dest)
	if err != nil || f.key == "" && f.recipients == "" {
		return b, err
	}
	if f.key == "" {
		return nil, Usage("--recipients takes --key: backups are read where they are written, to go on")
	}
	identities, err := os.ReadFile(f.key)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(f.key); err == nil && info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		return nil, fmt.Errorf("%s may be read by others: it has a secret, so its mode must be 0600", f.key)
	}
	var recipients []byte
	if f.recipients != "" {
		if recipients, err = os.ReadFile(f.recipients); err != nil {
			return nil, err
		}
	}
	keys, err := sealed.Parse(string(recipients), string(identities))
	if err == nil {
		keys, err = keys.ForOwn()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.key, err)
	}
	return sealed.New(b, keys), nil
}

// openBucket returns the bucket of DEST, without encryption.
func openBucket(dest string) (bucket.Bucket, error) {
	if strings.HasPrefix(dest, "s3:") {
		return bucket.Lazy(func(ctx context.Context) (bucket.Bucket, error) { return s3.Open(ctx, dest, nil) }), s3.CheckURL(dest)
	}
	if scheme, _, ok := strings.Cut(dest, "://"); ok {
		return nil, Usage(fmt.Sprintf("DEST is a folder or s3://BUCKET/PREFIX, not %s://…", scheme))
	}
	return bucket.Lazy(func(context.Context) (bucket.Bucket, error) { return bucket.Folder(dest) }), nil
}

// There is nil if DEST may have backups: a folder that doesn't exist has none, and reading makes none.
func There(dest string) error {
	if strings.HasPrefix(dest, "s3:") {
		return nil
	}
	if _, err := os.Stat(dest); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there are no backups in %s: the folder doesn't exist", dest)
	}
	return nil
}

// Apart returns an error if a folder for backups is in that of the store, or that of the store in it.
func Apart(dest, store string) error {
	if strings.HasPrefix(dest, "s3:") {
		return nil
	}
	d, err := Followed(dest)
	if err != nil {
		return err
	}
	s, err := Followed(store)
	if err != nil {
		return err
	}
	for _, pair := range [][2]string{{d, s}, {s, d}} {
		if rel, err := filepath.Rel(pair[0], pair[1]); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return Usage(fmt.Sprintf("the folders %s and %s are one within the other: a backup belongs elsewhere", dest, store))
		}
	}
	return nil
}

// Followed is the absolute path of a folder, without symbolic links as far as it exists.
func Followed(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for at, rest := path, ""; ; {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		up := filepath.Dir(at)
		if !errors.Is(err, os.ErrNotExist) || up == at {
			return "", err
		}
		at, rest = up, filepath.Join(filepath.Base(at), rest)
	}
}
