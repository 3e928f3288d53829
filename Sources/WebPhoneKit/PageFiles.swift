import CallLoadKit
import CallProcesses
import FoundationEssentials
import Glibc

/// The files of a folder, as a web server gives them out. Nothing outside of the folder can be read.
package struct PageFiles: Sendable, Equatable {
  /// The largest file that is served.
  package static let bytesMax = 4 << 20

  /// Without links, and without a slash at the end.
  package let folder: String

  /// - Returns: nil if there is no such folder.
  package init?(folder: String) {
    guard let path = Self.real(folder) else { return nil }
    self.folder = path
  }

  package struct File: Sendable, Equatable {
    package var contentType: String
    package var bytes: [UInt8]
  }

  package enum Refusal: Error, Equatable {
    case notFound
    case tooLarge
  }

  /// Reads the file at a path of a URL, percent-encoded as in requests. A path that ends with a slash means the
  /// `index.html` in it.
  package func read(_ path: String) throws(Refusal) -> File {
    guard let file = locate(path) else { throw .notFound }
    var facts = stat()
    guard stat(file, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else { throw .notFound }
    guard facts.st_size <= Self.bytesMax else { throw .tooLarge }
    guard let data = FileManager.default.contents(atPath: file) else { throw .notFound }
    return File(contentType: Self.contentType(of: file), bytes: Array(data))
  }

  package var hasPage: Bool { (try? read("/phone/")) != nil }

  /// - Returns: the path of the file; nil if it would be outside of the folder, hidden, or is not there.
  private func locate(_ path: String) -> String? {
    guard var path = PercentEncoding.decode(path), path.hasPrefix("/") else { return nil }
    if path.hasSuffix("/") { path += "index.html" }
    let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
    let isPlain = parts.allSatisfy { part in
      !part.isEmpty && !part.hasPrefix(".") && !part.utf8.contains(0) && !part.contains("\\")
    }
    // A link inside of the folder may lead out of it.
    guard isPlain, let real = Self.real(folder + path), real.hasPrefix(folder + "/") else {
      return nil
    }
    return real
  }

  private static func real(_ path: String) -> String? {
    guard let real = realpath(path, nil) else { return nil }
    defer { free(real) }
    return String(cString: real)
  }

  private static let contentTypes = [
    "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8", "svg": "image/svg+xml", "json": "application/json",
    "png": "image/png", "md": "text/plain; charset=utf-8", "ts": "text/plain; charset=utf-8",
  ]

  private static func contentType(of path: String) -> String {
    let name = path.split(separator: "/").last ?? ""
    let ending = name.split(separator: ".", omittingEmptySubsequences: false).last ?? ""
    return contentTypes[String(ending)] ?? "application/octet-stream"
  }

  /// `clients/web` above this program, or in the current folder.
  static var ofRepository: String? {
    var places: [Substring] = []
    if let own = Executables.own { places.append(own[...]) }
    places.append(FileManager.default.currentDirectoryPath[...] + "/.")
    for var place in places {
      while let slash = place.lastIndex(of: "/") {
        place = place[..<slash]
        let folder = "\(place)/clients/web"
        if FileManager.default.fileExists(atPath: folder + "/phone/index.html") { return folder }
      }
    }
    return nil
  }
}

/// RFC 3986, section 2.1.
enum PercentEncoding {
  /// - Returns: nil if an escape is not one, or the bytes are not UTF-8.
  static func decode(_ text: some StringProtocol) -> String? {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit)
      else { return nil }
      bytes.append(high << 4 | low)
    }
    return String(validating: bytes, as: UTF8.self)
  }

  /// The values of a query by name, the last one of a name. A plus is a space there.
  static func query(_ text: some StringProtocol) -> [String: String] {
    var values: [String: String] = [:]
    for pair in text.split(separator: "&") {
      let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        .map { String($0.map { $0 == "+" ? " " : $0 }) }
      guard let name = decode(parts[0]), let value = decode(parts.count > 1 ? parts[1] : "") else {
        continue
      }
      values[name] = value
    }
    return values
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
