"""What a store has to do, said a second time and independently, and a test that all of them do."""
