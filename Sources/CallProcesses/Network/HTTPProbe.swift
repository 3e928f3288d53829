import Dispatch
import Glibc

/// One HTTP request over a socket of its own, also in a cancelled task: a bare machine has no curl.
package enum HTTPProbe {
  package static func get(
    _ address: String, _ port: Int, _ path: String, seconds: Int = 10
  ) async -> (status: Int32, body: String) {
    await send("GET", address, port, path, seconds: seconds)
  }

  /// - Parameters:
  ///   - version: with 1.0 no answer comes in chunks, which are not decoded.
  ///   - connection: `close`; otherwise the answer is complete when the server closes the connection by itself, or
  ///     changes to another protocol.
  /// - Returns: the status, 0 where no answer was complete within `seconds`, and the body.
  package static func send(
    _ method: String, _ address: String, _ port: Int, _ path: String, version: String = "1.1",
    connection: String = "close", headers: [String] = [], body: String = "", seconds: Int = 10
  ) async -> (status: Int32, body: String) {
    let lines =
      ["\(method) \(path) HTTP/\(version)", "Host: \(address)", "Connection: \(connection)"]
      + headers
      + (body.isEmpty ? [] : ["Content-Length: \(body.utf8.count)"])
    let request = lines.map { $0 + "\r\n" }.joined() + "\r\n" + body
    return await withCheckedContinuation { continuation in
      // A queue of its own has a thread of its own, which may block.
      DispatchQueue(label: "HTTPProbe").async {
        let answer = ask(address, port, request, seconds)
        continuation.resume(returning: parse(String(decoding: answer, as: UTF8.self)))
      }
    }
  }

  private static func ask(
    _ address: String, _ port: Int, _ request: String, _ seconds: Int
  ) -> [UInt8] {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var limit = timeval(tv_sec: seconds, tv_usec: 0)
    let size = socklen_t(MemoryLayout<timeval>.size)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
    guard withIPv4(address, UInt16(port), { connect(descriptor, $0, $1) }) == 0 else { return [] }
    guard Glibc.send(descriptor, request, request.utf8.count, Int32(MSG_NOSIGNAL)) > 0 else {
      return []
    }
    var answer: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16_384)
    while true {
      let count = recv(descriptor, &buffer, buffer.count, 0)
      if count < 0 { return [] }
      if count == 0 { return answer }
      answer += buffer[..<count]
      if answer.starts(with: Array("HTTP/1.1 101".utf8)) { return answer }
    }
  }

  private static func parse(_ answer: String) -> (status: Int32, body: String) {
    let parts = answer.split(separator: " ", maxSplits: 2)
    guard parts.count > 1, let status = Int32(parts[1]) else { return (0, "") }
    let body = answer.firstRange(of: "\r\n\r\n").map { String(answer[$0.upperBound...]) }
    return (status, body ?? "")
  }
}
