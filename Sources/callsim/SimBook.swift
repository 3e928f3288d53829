internal import CallSimulation
internal import Glibc

/// A file with the seeds that have run and failed, so that a long search can continue. It has one line
/// for a slice, followed by one line for each failed seed.
struct SimBook {
  struct Slice: Equatable {
    var intensity: String
    var seeds: ClosedRange<UInt64>
    var failed: Int

    var text: String { "\(intensity) \(seeds.lowerBound) \(seeds.upperBound) failed \(failed)" }
  }

  /// The number of seeds that run before they are recorded.
  static let sliceSize: UInt64 = 500

  let path: String
  let intensity: String

  /// The slices of this intensity that have run.
  func slices() throws -> [Slice] {
    try Self.lines(path).compactMap(SimBook.Slice.init).filter { $0.intensity == intensity }
  }

  /// The seeds that begin the lines of a file.
  static func listed(_ path: String) throws -> [UInt64] {
    let seeds = try lines(path).compactMap { line in
      line.split(separator: " ").first.flatMap { UInt64($0) }
    }
    if seeds.isEmpty { throw BookError(path: path, what: "names no seed in") }
    return seeds
  }

  /// No lines where there is no such file.
  private static func lines(_ path: String) throws -> [String] {
    guard let file = fopen(path, "r") else {
      if errno == ENOENT { return [] }
      throw BookError(path: path)
    }
    defer { fclose(file) }
    var found: [String] = []
    var buffer = [CChar](repeating: 0, count: 4096)
    while fgets(&buffer, Int32(buffer.count), file) != nil {
      let line = buffer.prefix { $0 != 0 && $0 != 10 }.map { UInt8(bitPattern: $0) }
      found.append(String(decoding: line, as: UTF8.self))
    }
    return found
  }

  /// The first seed from `first` on that has not run.
  static func next(from first: UInt64, _ slices: [Slice]) -> UInt64 {
    var next = first
    for slice in slices.sorted(by: { $0.seeds.lowerBound < $1.seeds.lowerBound })
    where slice.seeds.contains(next) {
      next = slice.seeds.upperBound + 1
    }
    return next
  }

  func write(_ slice: Slice, _ failures: [SimFailure]) throws {
    guard let file = fopen(path, "a") else { throw BookError(path: path) }
    defer { fclose(file) }
    fputs(slice.text + "\n", file)
    for failure in failures { fputs("  seed \(failure.seed): \(failure.reason)\n", file) }
  }

  struct BookError: Error, CustomStringConvertible {
    var path: String
    var what = "cannot read or write"
    var description: String { "\(what) \(path)" }
  }
}

extension SimBook.Slice {
  /// nil for other lines, which are for people.
  init?(_ line: String) {
    let words = line.split(separator: " ").map(String.init)
    guard words.count == 5, words[3] == "failed", let first = UInt64(words[1]),
      let last = UInt64(words[2]), first <= last, let failed = Int(words[4])
    else { return nil }
    self.init(intensity: words[0], seeds: first...last, failed: failed)
  }
}
