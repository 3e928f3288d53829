import Foundation

/// Looks for secrets in what was printed: whole, or any two dozen of their characters, in whatever
/// case.
struct SecretSearch {
  struct Secret {
    var name: String
    var text: String
    fileprivate var pieces: [Data]
  }
  private(set) var secrets: [Secret] = []

  /// Shorter texts are looked for as a whole.
  private static let pieceBytes = 16
  private static let step = 8

  mutating func add(_ name: String, _ text: String) {
    let bytes = Array(text.lowercased().utf8)
    precondition(bytes.count >= 8, "\(name) is too short to be told from other text")
    var pieces: [Data] = []
    if bytes.count < Self.pieceBytes + Self.step {
      pieces = [Data(bytes)]
    } else {
      for start in stride(from: 0, through: bytes.count - Self.pieceBytes, by: Self.step) {
        pieces.append(Data(bytes[start..<start + Self.pieceBytes]))
      }
    }
    secrets.append(Secret(name: name, text: text, pieces: pieces))
  }

  /// Each line of a private key by itself, without its frame.
  mutating func add(_ name: String, pem: String) {
    for (number, line) in pem.split(separator: "\n").enumerated()
    where !line.hasPrefix("-----") && line.utf8.count >= 8 {
      add("\(name), line \(number)", String(line))
    }
  }

  /// As people and programs write bytes.
  mutating func add(_ name: String, bytes: [UInt8]) {
    let data = Data(bytes)
    let base64 = data.base64EncodedString().replacingOccurrences(of: "=", with: "")
    add(name + ", base64", base64)
    add(
      name + ", base64url",
      base64.replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_"))
    add(name + ", hexadecimal", bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())
    add(name + ", decimal", bytes.map { String($0) }.joined(separator: ", "))
  }

  /// - Parameter texts: by where they are from.
  /// - Returns: which secret is where. No secret itself: this is printed, too.
  func findings(in texts: [String: String]) -> [String] {
    var found: [String] = []
    for (place, text) in texts.sorted(by: { $0.key < $1.key }) {
      let haystack = Data(text.lowercased().utf8)
      for secret in secrets where secret.pieces.contains(where: { haystack.range(of: $0) != nil }) {
        found.append("\(secret.name) in \(place)")
      }
    }
    return found
  }
}
