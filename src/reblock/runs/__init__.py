"""Everything that makes a run durable: attempt, journal, resume, lock, staging, publish, scratch."""
