// Does what the first word of its input says.
package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

func main() {
	var word string
	var a, b int
	fmt.Scan(&word, &a, &b)
	switch word {
	case "sum":
		fmt.Println(a + b)
	case "exit":
		os.Exit(a)
	case "signal":
		syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Minute)
	case "spin":
		for {
		}
	case "sleep":
		time.Sleep(time.Minute)
	case "memory":
		var held [][]byte
		for {
			block := make([]byte, 1<<20)
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			held = append(held, block)
		}
	case "flood":
		for {
			fmt.Println("flood flood flood flood flood flood flood flood")
		}
	}
}
