"""``python -m gradtd``"""

from gradtd.cli.app import main

main()
