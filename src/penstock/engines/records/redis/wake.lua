-- Tells those who wait that work has come. ARGV[1]: of which kinds, as MessagePack.
wake(cmsgpack.unpack(ARGV[1]))
return 1
