"""``python -m gradtd``"""

from gradtd.cli import main

main()
