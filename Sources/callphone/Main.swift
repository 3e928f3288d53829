internal import CallPhoneKit

/// `CallPhoneKit` is the program. It is a module of its own, so that tests link it.
@main struct Main {
  static func main() async { await PhoneProgram.main() }
}
