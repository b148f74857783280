"""The live service: nodes hosted on asyncio, and the doors through which clients reach them."""
