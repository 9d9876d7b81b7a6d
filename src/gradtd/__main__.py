"""``python -m gradtd``"""

from gradtd.cli import main

if __name__ == "__main__":  # workers that it starts import this file, too
    main()
