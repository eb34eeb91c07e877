"""Tasks and attempts: accept, claim, complete, reap, cancel. The only slice that joins the ones below it in one transaction."""
