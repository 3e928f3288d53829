internal import ArgumentParser

/// The program.
package enum PhoneProgram {
  package static func main() async { await PhoneCommand.main() }
}
