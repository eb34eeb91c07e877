"""`tracelake init`: a project folder that runs, made from the files of `template`."""
