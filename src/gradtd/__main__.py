"""``python -m gradtd``"""

from gradtd.cli import main

if __name__ == "__main__":  # worker processes also import this file
    main()
