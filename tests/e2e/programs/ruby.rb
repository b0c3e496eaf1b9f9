# Does what the first word of its input says.
word, *numbers = gets.split
case word
when "sum" then puts numbers.sum(&:to_i)
when "exit" then exit numbers[0].to_i
when "signal" then Process.kill(:KILL, $$)
when "spin" then loop {}
when "sleep" then sleep 60
when "memory"
  held = []
  loop { held << "x" * (1 << 20) }
when "flood" then loop { puts "flood" * 1000 }
end
