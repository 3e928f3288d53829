internal import CallFuzz
internal import Glibc

// libFuzzer, on the target that CALLMESH_FUZZ_TARGET names. Its options and files are the arguments.

@_silgen_name("LLVMFuzzerRunDriver")
private func libFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
  _ run: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

private nonisolated(unsafe) var run: FuzzTarget.Run = { _ in }

let name = getenv("CALLMESH_FUZZ_TARGET").map { String(cString: $0) }
guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
  print(FuzzTarget.all.map(\.name).joined(separator: "\n"))
  exit(name == nil ? 0 : 2)
}
run = try target.make()
let options = [CommandLine.arguments[0], "-max_len=\(target.bytesMax)"]
let words = options + CommandLine.arguments.dropFirst()
var count = CInt(words.count)
var arguments = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(
  capacity: words.count + 1)
for (index, word) in words.enumerated() { arguments[index] = strdup(word) }
arguments[words.count] = nil
exit(
  libFuzzer(&count, &arguments) { bytes, count in
    do {
      try run(UnsafeRawBufferPointer(start: bytes, count: count))
    } catch {
      fatalError("\(error)")
    }
    return 0
  })
