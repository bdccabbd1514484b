"""The compiler turns the user's plan into one that a host runs, pass by pass. `compile` has the order of passes."""
